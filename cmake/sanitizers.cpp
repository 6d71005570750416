// What sanitizer builds take where the environment does not say: a report ends the program. Suppressions are
// for third-party code only, each with its reason. Read by the sanitizers' runtimes before main().
extern "C" {

/// The linker's --undefined asks for it, and so pulls this file into every program.
extern const int penstock_sanitizers;
const int penstock_sanitizers = 1;

const char* __asan_default_options() {
  return "detect_stack_use_after_return=1:strict_string_checks=1:detect_leaks=1";
}

const char* __ubsan_default_options() {
  return "halt_on_error=1:print_stacktrace=1";
}

const char* __tsan_default_options() {
  return "halt_on_error=1:second_deadlock_stack=1";
}

const char* __tsan_default_suppressions() {
  return "";
}

/// Called at every branch of what is built with -fsanitize-coverage=trace-pc; the fuzz driver has another
/// one.
__attribute__((weak)) void __sanitizer_cov_trace_pc() {}

const char* __lsan_default_suppressions() {
  return "";
}
}
