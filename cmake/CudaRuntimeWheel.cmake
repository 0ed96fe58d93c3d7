# Finds the CUDA runtime's headers and static library: in the nvidia-cuda-runtime and nvidia-cuda-crt distributions,
# else in an installed CUDA toolkit.
#
# Defines: cuda_wheel::headers, cuda_wheel::runtime_static
execute_process(
  COMMAND "${Python_EXECUTABLE}" -c
          "import importlib.metadata as m; print(m.distribution('nvidia-cuda-runtime').locate_file('nvidia/cu13'))"
  OUTPUT_VARIABLE _root
  OUTPUT_STRIP_TRAILING_WHITESPACE
  ERROR_QUIET)
if(EXISTS "${_root}/include/cuda_runtime_api.h" AND EXISTS "${_root}/include/crt/host_defines.h"
   AND EXISTS "${_root}/lib/libcudart_static.a")
  set(_include "${_root}/include")
  set(_library "${_root}/lib/libcudart_static.a")
else()
  find_package(CUDAToolkit 13 QUIET)
  if(NOT TARGET CUDA::cudart_static)
    message(
      FATAL_ERROR
        "No CUDA 13 runtime: looked for the wheels nvidia-cuda-runtime and nvidia-cuda-crt beside ${Python_EXECUTABLE} and for a CUDA toolkit. "
        "Run: ${Python_EXECUTABLE} -m pip install 'nvidia-cuda-runtime>=13,<14' 'nvidia-cuda-crt>=13,<14'")
  endif()
  list(GET CUDAToolkit_INCLUDE_DIRS 0 _include)
  get_target_property(_library CUDA::cudart_static IMPORTED_LOCATION)
endif()
message(STATUS "CUDA runtime: ${_library}")

find_package(Threads REQUIRED)
add_library(cuda_wheel::headers INTERFACE IMPORTED)
target_include_directories(cuda_wheel::headers SYSTEM INTERFACE "${_include}")

add_library(cuda_wheel::runtime_static STATIC IMPORTED)
set_target_properties(cuda_wheel::runtime_static PROPERTIES IMPORTED_LOCATION "${_library}")
target_link_libraries(cuda_wheel::runtime_static INTERFACE cuda_wheel::headers Threads::Threads ${CMAKE_DL_LIBS} rt)
