# CMake package of the TensorRT delegate for ExecuTorch.
#
#   find_package(executorch REQUIRED COMPONENTS kernels_optimized)
#   find_package(executorch_backend_tensorrt REQUIRED)
#   target_link_libraries(my_app PRIVATE executorch::runtime executorch::kernels_optimized executorch::backend_tensorrt)
#
# Defines executorch::backend_tensorrt, a shared library that registers the backend "TensorRTBackend" when it is loaded.
# The target keeps the library in the link although no symbol of it is used. executorch is found here when the caller
# has not done so; its component kernels_optimized has the operators that copy tensors between host and device, which
# every program exported with default options calls.
#
# EXECUTORCH_BACKEND_TENSORRT_EMBED_RUNPATH (default ON, set before find_package): record the folders of this library
# and of libexecutorch.so in the binaries that link the target. Right for a program that runs against the installed
# wheels, wrong for one that is given away: set it to OFF, and CMAKE_SKIP_BUILD_RPATH to ON.
if(CMAKE_VERSION VERSION_LESS 3.28)
  set(executorch_backend_tensorrt_FOUND FALSE)
  set(executorch_backend_tensorrt_NOT_FOUND_MESSAGE
      "executorch_backend_tensorrt needs CMake 3.28 or newer, as ExecuTorch's targets do; this is ${CMAKE_VERSION}.")
  return()
endif()

# Installed as <package>/lib/cmake/executorch_backend_tensorrt; nothing absolute is recorded, so the wheel can be moved.
get_filename_component(_tensorrt_package "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
set(_tensorrt_library "${_tensorrt_package}/lib/libexecutorch_backend_tensorrt.so")
if(NOT EXISTS "${_tensorrt_library}")
  set(executorch_backend_tensorrt_FOUND FALSE)
  set(executorch_backend_tensorrt_NOT_FOUND_MESSAGE
      "The delegate library ${_tensorrt_library} is missing. Run: python -m pip install --force-reinstall torch-tensorrt-executorch-runtime")
  unset(_tensorrt_package)
  unset(_tensorrt_library)
  return()
endif()

if(NOT TARGET executorch::runtime)
  # Beside this package in site-packages; CMAKE_PREFIX_PATH and executorch_DIR are tried first.
  find_package(executorch QUIET CONFIG COMPONENTS kernels_optimized HINTS "${_tensorrt_package}/../executorch/share/cmake")
endif()
if(NOT TARGET executorch::runtime)
  set(executorch_backend_tensorrt_FOUND FALSE)
  set(executorch_backend_tensorrt_NOT_FOUND_MESSAGE
      "The delegate needs ExecuTorch 1.5 with its component kernels_optimized, which was found neither in CMAKE_PREFIX_PATH nor in ${_tensorrt_package}/../executorch. Run: python -m pip install \"executorch>=1.5.1,<1.6\" and give -DCMAKE_PREFIX_PATH=<site-packages>/executorch/share/cmake")
  unset(_tensorrt_package)
  unset(_tensorrt_library)
  return()
endif()

if(NOT TARGET executorch::kernels_optimized AND NOT executorch_backend_tensorrt_FIND_QUIETLY)
  message(
    WARNING
      "executorch::kernels_optimized is not available. Programs exported with default options need its operators et_copy::_h2d_copy and et_copy::_d2h_copy. Ask for it: find_package(executorch REQUIRED COMPONENTS kernels_optimized)"
  )
endif()

option(EXECUTORCH_BACKEND_TENSORRT_EMBED_RUNPATH "Record the installed folders of the delegate and of ExecuTorch in binaries" ON)

if(NOT TARGET executorch::backend_tensorrt)
  add_library(executorch::backend_tensorrt SHARED IMPORTED GLOBAL)
  set_target_properties(
    executorch::backend_tensorrt
    PROPERTIES IMPORTED_LOCATION "${_tensorrt_library}"
               IMPORTED_SONAME libexecutorch_backend_tensorrt.so
               INTERFACE_INCLUDE_DIRECTORIES "${_tensorrt_package}/include"
               INTERFACE_COMPILE_FEATURES cxx_std_17)
  # Nothing calls into the library, so a linker with --as-needed would drop it together with the registration. Named
  # here once more, and as one option so that CMake neither reorders nor merges the parts.
  target_link_options(executorch::backend_tensorrt INTERFACE
                      "LINKER:--push-state,--no-as-needed,${_tensorrt_library},--pop-state")
  if(EXECUTORCH_BACKEND_TENSORRT_EMBED_RUNPATH)
    get_target_property(_executorch_library executorch::runtime IMPORTED_LOCATION)
    get_filename_component(_executorch_folder "${_executorch_library}" DIRECTORY)
    target_link_options(executorch::backend_tensorrt INTERFACE
                        "LINKER:-rpath,${_tensorrt_package}/lib" "LINKER:-rpath,${_executorch_folder}")
    unset(_executorch_folder)
    unset(_executorch_library)
  endif()
endif()
set(executorch_backend_tensorrt_FOUND TRUE)
set(EXECUTORCH_BACKEND_TENSORRT_LIBRARY_DIR "${_tensorrt_package}/lib")
set(EXECUTORCH_BACKEND_TENSORRT_INCLUDE_DIR "${_tensorrt_package}/include")
unset(_tensorrt_package)
unset(_tensorrt_library)
