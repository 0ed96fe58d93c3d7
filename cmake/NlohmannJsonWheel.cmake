# Finds the header-only nlohmann-json distribution. Defines: nlohmann_json_wheel::nlohmann_json
execute_process(
  COMMAND "${Python_EXECUTABLE}" -c
          "import importlib.metadata as m; print(next(f.locate() for f in m.files('nlohmann-json') if f.name == 'json.hpp' and f.parent.name == 'nlohmann').parent.parent)"
  OUTPUT_VARIABLE _include
  OUTPUT_STRIP_TRAILING_WHITESPACE
  ERROR_QUIET
  RESULT_VARIABLE _status)
if(NOT _status EQUAL 0)
  message(FATAL_ERROR "nlohmann-json is not installed for ${Python_EXECUTABLE}. Run: ${Python_EXECUTABLE} -m pip install 'nlohmann-json>=3.12,<4'")
endif()
add_library(nlohmann_json_wheel::nlohmann_json INTERFACE IMPORTED)
target_include_directories(nlohmann_json_wheel::nlohmann_json SYSTEM INTERFACE "${_include}")
