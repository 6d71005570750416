# Build rules shared by every folder: one folder is one static library and one namespace.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "" FORCE)
endif()
# Asserts stay on: they mark programmer errors and cost nothing outside kernels, which use none.
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g1")
# Code that uses the JSON library, and the kernels, compile six times as long with sanitizers at -O2.
if(PENSTOCK_SANITIZE)
  set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-Og -g1")
endif()

find_program(PENSTOCK_CCACHE ccache)
if(PENSTOCK_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${PENSTOCK_CCACHE})
endif()

find_package(Threads REQUIRED)

add_library(penstock_options INTERFACE)
target_include_directories(penstock_options INTERFACE ${CMAKE_SOURCE_DIR}/src)
target_compile_options(penstock_options INTERFACE -Wall -Wextra -Wno-missing-field-initializers -ffp-contract=off $<$<BOOL:${PENSTOCK_WERROR}>:-Werror>)
target_link_libraries(penstock_options INTERFACE Threads::Threads)
if(PENSTOCK_SANITIZE)
  target_compile_options(penstock_options INTERFACE -fsanitize=${PENSTOCK_SANITIZE} -fno-omit-frame-pointer)
  target_link_options(penstock_options INTERFACE -fsanitize=${PENSTOCK_SANITIZE})
  if(PENSTOCK_SANITIZE MATCHES thread)
    target_compile_options(penstock_options INTERFACE -Wno-tsan)  # Boost.Asio's fences, which gcc says it does not follow
  endif()
  # Options and suppressions travel in each program, so that a test fails on a report however it is started.
  add_library(penstock_sanitizers STATIC ${CMAKE_SOURCE_DIR}/cmake/sanitizers.cpp)
  target_link_libraries(penstock_options INTERFACE penstock_sanitizers)
  target_link_options(penstock_options INTERFACE LINKER:--undefined=penstock_sanitizers)
endif()

# penstock_subdirectories(ROOT folder...): adds each folder that exists (a folder is made when its first line is needed).
function(penstock_subdirectories root)
  foreach(folder IN LISTS ARGN)
    if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${root}/${folder}/CMakeLists.txt)
      add_subdirectory(${root}/${folder})
    endif()
  endforeach()
endfunction()

# penstock_library(NAME SOURCES a.cpp ... [DEPS penstock libraries ...] [LINK third-party targets ...] [SEPARATE])
# NAME is the folder below src/ with / written as _ (exec/cpu is exec_cpu). SEPARATE: no unity build (the sanitizer presets
# ask for one), because its files use the same names in their anonymous namespaces.
function(penstock_library name)
  cmake_parse_arguments(ARG "SEPARATE" "" "SOURCES;DEPS;LINK" ${ARGN})
  add_library(penstock_${name} STATIC ${ARG_SOURCES})
  add_library(penstock::${name} ALIAS penstock_${name})
  list(TRANSFORM ARG_DEPS PREPEND penstock_)
  target_link_libraries(penstock_${name} PUBLIC penstock_options ${ARG_DEPS} ${ARG_LINK})
  if(PENSTOCK_SANITIZE AND name MATCHES "^(exec|ops|quant)$")
    target_compile_options(penstock_${name} PRIVATE -O2)
  endif()
  # What reads bytes from outside tells the fuzz driver (tests/fuzz) where it goes.
  if(PENSTOCK_SANITIZE MATCHES address AND name MATCHES "^(base|http|chat|text|formats|tensor|models|pool|serve|api|tier)$")
    target_compile_options(penstock_${name} PRIVATE -fsanitize-coverage=trace-pc)
  endif()
  if(CMAKE_UNITY_BUILD AND name MATCHES "^(http|text)$")
    target_compile_options(penstock_${name} PRIVATE -Wno-subobject-linkage)  # types in anonymous namespaces count as included
  endif()
  if(ARG_SEPARATE)
    set_target_properties(penstock_${name} PROPERTIES UNITY_BUILD OFF)
  endif()
endfunction()

# penstock_test(NAME SOURCES a.cpp ... DEPS libraries ... [SLOW] [SEPARATE]): one GoogleTest program and one ctest entry.
function(penstock_test name)
  cmake_parse_arguments(ARG "SLOW;SEPARATE" "" "SOURCES;DEPS;LINK" ${ARGN})
  add_executable(${name}_test ${ARG_SOURCES})
  list(TRANSFORM ARG_DEPS PREPEND penstock_)
  target_link_libraries(${name}_test PRIVATE penstock_options ${ARG_DEPS} ${ARG_LINK} GTest::gmock GTest::gtest_main)
  target_include_directories(${name}_test PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  target_compile_definitions(${name}_test PRIVATE PENSTOCK_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  if(ARG_SEPARATE)
    set_target_properties(${name}_test PROPERTIES UNITY_BUILD OFF)
  endif()
  add_test(NAME ${name} COMMAND ${name}_test)
  if(ARG_SLOW)
    set_tests_properties(${name} PROPERTIES LABELS slow)
  endif()
endfunction()
