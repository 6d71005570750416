// A step of a parser, as a coroutine that tells whether it read what it is there for. It stops where text is
// missing and goes on when it comes, so that a parser is plain code and its result cannot depend on how the
// text was cut. A step is started by the step that awaits it; the outermost one by start().
#pragma once

#include <coroutine>
#include <exception>
#include <utility>

namespace penstock::formats {

class [[nodiscard]] Step {
 public:
  struct promise_type;
  using Handle = std::coroutine_handle<promise_type>;

  /// What waits for the step is resumed from here. Nothing of the frame may be touched after that.
  struct Final {
    bool await_ready() const noexcept { return false; }
    void await_suspend(Handle step) const noexcept;
    void await_resume() const noexcept {}
  };

  struct promise_type {
    bool result = false;
    std::exception_ptr error;
    std::coroutine_handle<> waiting;

    Step get_return_object() { return Step(Handle::from_promise(*this)); }
    std::suspend_always initial_suspend() const noexcept { return {}; }
    Final final_suspend() const noexcept { return {}; }
    void return_value(bool value) { result = value; }
    void unhandled_exception() { error = std::current_exception(); }
  };

  Step() = default;
  Step(Step&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Step& operator=(Step&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Step() {
    if (handle_) handle_.destroy();
  }

  void start() { handle_.resume(); }

  /// Throws what the step threw.
  bool result() const {
    if (handle_.promise().error) std::rethrow_exception(handle_.promise().error);
    return handle_.promise().result;
  }

  bool done() const { return handle_.done(); }

  // A step that needs no waiting ends inside await_suspend: then nothing is suspended, and loops over such
  // steps do not deepen the stack.
  bool await_ready() const noexcept { return false; }
  bool await_suspend(std::coroutine_handle<> waiting) {
    handle_.resume();
    if (handle_.done()) return false;
    handle_.promise().waiting = waiting;
    return true;
  }
  bool await_resume() const { return result(); }

 private:
  explicit Step(Handle handle) : handle_(handle) {}

  Handle handle_;
};

inline void Step::Final::await_suspend(Handle step) const noexcept {
  if (const std::coroutine_handle<> waiting = step.promise().waiting) waiting.resume();
}

}  // namespace penstock::formats
