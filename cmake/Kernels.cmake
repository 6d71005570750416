# The kernels of the CPU executor and their tests alone, for a processor that the whole program is not built for here
# (PENSTOCK_KERNELS_ONLY, preset arm64). The tests run on each of these processors, as the emulator calls them.
set(emulated_processors max neoverse-n1 cortex-a72)
set(PENSTOCK_GTEST_SOURCE /usr/src/googletest CACHE PATH "Sources of GoogleTest, as libgtest-dev brings them")

add_subdirectory(${PENSTOCK_GTEST_SOURCE} googletest EXCLUDE_FROM_ALL)
target_compile_options(gtest PRIVATE -O0)  # quicker to build, and its speed does not matter
include(src/exec/cpu/kernels.cmake)
penstock_library(base SOURCES src/base/error.cpp)
penstock_library(exec_cpu
  SOURCES ${kernel_sources} src/exec/cpu/activations.cpp src/exec/cpu/arena.cpp src/exec/cpu/kv_cache.cpp src/exec/cpu/processor.cpp src/ops/kv_format.cpp
  DEPS base)
add_executable(cpu_kernels_test tests/ops/cpu_kernels_test.cpp)
target_link_libraries(cpu_kernels_test PRIVATE penstock_exec_cpu GTest::gtest_main)

foreach(processor IN LISTS emulated_processors)
  set(command ${CMAKE_CROSSCOMPILING_EMULATOR} -cpu ${processor} $<TARGET_FILE:cpu_kernels_test>)
  add_test(NAME cpu_kernels_${processor} COMMAND ${command})
  add_test(NAME tables_${processor} COMMAND ${command} --gtest_list_tests)
endforeach()
# A table that is not chosen is not tested.
set_tests_properties(tables_max PROPERTIES PASS_REGULAR_EXPRESSION "/neon_i8mm.*/neon_dotprod.*/neon[^_]")
set_tests_properties(tables_neoverse-n1 PROPERTIES PASS_REGULAR_EXPRESSION "/neon_dotprod.*/neon[^_]" FAIL_REGULAR_EXPRESSION i8mm)
set_tests_properties(tables_cortex-a72 PROPERTIES PASS_REGULAR_EXPRESSION "/neon[^_]" FAIL_REGULAR_EXPRESSION "dotprod|i8mm")
