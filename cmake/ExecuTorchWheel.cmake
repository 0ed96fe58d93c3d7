# Finds the headers and libexecutorch.so of the installed executorch distribution.
#
# The wheel's own target executorch::runtime records an absolute RUNPATH and a library that a delegate does not
# need; a wheel of our own may carry neither, so the library is linked plainly here.
#
# Defines: executorch_wheel::runtime, EXECUTORCH_WHEEL_DIR
execute_process(
  COMMAND "${Python_EXECUTABLE}" -c
          "import importlib.metadata as m; d = m.distribution('executorch'); print(d.version, d.locate_file('executorch'), sep=';')"
  OUTPUT_VARIABLE _found
  OUTPUT_STRIP_TRAILING_WHITESPACE
  ERROR_QUIET
  RESULT_VARIABLE _status)
if(NOT _status EQUAL 0)
  message(FATAL_ERROR "executorch is not installed for ${Python_EXECUTABLE}. Run: ${Python_EXECUTABLE} -m pip install 'executorch>=1.5.1,<1.6'")
endif()
list(GET _found 0 EXECUTORCH_WHEEL_VERSION)
list(GET _found 1 EXECUTORCH_WHEEL_DIR)
if(NOT EXISTS "${EXECUTORCH_WHEEL_DIR}/lib/libexecutorch.so")
  message(FATAL_ERROR "executorch ${EXECUTORCH_WHEEL_VERSION} in ${EXECUTORCH_WHEEL_DIR} has no lib/libexecutorch.so. Run: ${Python_EXECUTABLE} -m pip install 'executorch>=1.5.1,<1.6'")
endif()
message(STATUS "ExecuTorch ${EXECUTORCH_WHEEL_VERSION}: ${EXECUTORCH_WHEEL_DIR}")

add_library(executorch_wheel::runtime SHARED IMPORTED)
set_target_properties(
  executorch_wheel::runtime
  PROPERTIES IMPORTED_LOCATION "${EXECUTORCH_WHEEL_DIR}/lib/libexecutorch.so"
             IMPORTED_SONAME libexecutorch.so)
target_include_directories(
  executorch_wheel::runtime SYSTEM
  INTERFACE "${EXECUTORCH_WHEEL_DIR}/include" "${EXECUTORCH_WHEEL_DIR}/include/executorch/runtime/core/portable_type/c10")
# Without ET_EVENT_TRACER_ENABLED the delegate profiling hooks compile to nothing.
target_compile_definitions(executorch_wheel::runtime INTERFACE C10_USING_CUSTOM_GENERATED_MACROS ET_EVENT_TRACER_ENABLED)
