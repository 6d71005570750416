# The kernel tables for the target processor, in kernel_sources. Files built with wider flags than the rest are named
# after their instruction set.
set(kernel_sources
  attention_scalar.cpp
  kernels_absent.cpp
  kernels_scalar.cpp
  linear_codes_scalar.cpp
  linear_dense_scalar.cpp
  rows_scalar.cpp)
list(TRANSFORM kernel_sources PREPEND ${CMAKE_CURRENT_LIST_DIR}/)

# penstock_kernels(FLAGS flag... SOURCES a.cpp ...): adds files of one instruction set to kernel_sources.
function(penstock_kernels)
  cmake_parse_arguments(ARG "" "" "FLAGS;SOURCES" ${ARGN})
  list(TRANSFORM ARG_SOURCES PREPEND ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/)
  set_source_files_properties(${ARG_SOURCES} PROPERTIES COMPILE_OPTIONS "${ARG_FLAGS}")
  set(kernel_sources ${kernel_sources} ${ARG_SOURCES} PARENT_SCOPE)
endfunction()

if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  penstock_kernels(SOURCES kernels_avx2.cpp)
  penstock_kernels(FLAGS -mavx2 -mfma -mf16c SOURCES
    attention_avx2.cpp
    linear_dense_avx2.cpp
    linear_exact_avx2.cpp
    linear_four_avx2.cpp
    linear_fp8_avx2.cpp
    linear_high_avx2.cpp
    linear_low_avx2.cpp
    rows_avx2.cpp)
  # GCC 12 takes the undefined lanes inside its own intrinsics for uninitialised variables.
  penstock_kernels(FLAGS -mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni
    -Wno-uninitialized -Wno-maybe-uninitialized SOURCES
    attention_avx512.cpp
    linear_avx512.cpp
    rows_avx512.cpp)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
  penstock_kernels(SOURCES
    attention_neon.cpp
    kernels_neon.cpp
    linear_codes_neon.cpp
    linear_dense_neon.cpp
    linear_exact_neon.cpp
    rows_neon.cpp)
  penstock_kernels(FLAGS -march=armv8.2-a+dotprod+fp16 SOURCES linear_dotprod_neon.cpp)
  penstock_kernels(FLAGS -march=armv8.2-a+dotprod+fp16+i8mm SOURCES linear_i8mm_neon.cpp)
endif()
