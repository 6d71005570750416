// The text that a parser reads: what has come, a cursor in it, and waiting for more. Positions count the bytes
// of all that was pushed. Owned by one parser.
#pragma once

#include <coroutine>
#include <cstddef>
#include <string>
#include <string_view>

#include "formats/step.h"

namespace penstock::formats {

class Input {
 public:
  /// Waits until it can be said what comes next; ready() is asked again after every push.
  class Wait {
   public:
    explicit Wait(Input& in) : in_(in) {}
    virtual ~Wait() = default;
    virtual bool ready() const = 0;

    bool await_ready() const { return ready(); }
    void await_suspend(std::coroutine_handle<> step) {
      step_ = step;
      in_.wait_ = this;
    }

   protected:
    friend class Input;
    Input& in_;
    std::coroutine_handle<> step_;
  };

  /// Whether there is a byte at the cursor: false at the end of the output.
  class More : public Wait {
   public:
    using Wait::Wait;
    bool ready() const override { return in_.ended_ || in_.has_byte(); }
    bool await_resume() const { return in_.has_byte(); }
  };

  /// Whether the marker comes next; the cursor is then behind it. Waits only while it still may.
  class Accept : public Wait {
   public:
    Accept(Input& in, std::string_view marker) : Wait(in), marker_(marker) {}
    bool ready() const override;
    bool await_resume() const;

   private:
    std::string_view marker_;
  };

  More more() { return More(*this); }
  Accept accept(std::string_view marker) { return Accept(*this, marker); }

  /// These need a byte at the cursor.
  char peek() const { return text_[at_]; }
  char take() { return text_[at_++]; }

  bool has_byte() const { return at_ < text_.size(); }
  size_t position() const { return start_ + at_; }
  void rewind(size_t position) { at_ = position - start_; }
  std::string_view between(size_t begin, size_t end) const {
    return std::string_view(text_).substr(begin - start_, end - begin);
  }

  /// What lies before the cursor will not be asked for again.
  void forget();

  void push(std::string_view text);
  void finish();

 private:
  void resume();

  std::string text_;
  size_t start_ = 0;  // position of text_[0]
  size_t at_ = 0;     // the cursor, in text_
  bool ended_ = false;
  Wait* wait_ = nullptr;
};

bool is_space(char c);

/// Passes over spaces and line ends. True.
Step skip_space(Input& in);

/// Appends what comes up to `stop`, at most `most_bytes`, and passes the stop. False if it does not come.
Step read_until(Input& in, std::string_view stop, size_t most_bytes, std::string& out);

}  // namespace penstock::formats
