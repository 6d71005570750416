// The text that a parser reads: what has come, a cursor in it, and waiting for more. Positions count the
// bytes of all that was pushed. Owned by one parser.
#pragma once

#include <coroutine>
#include <cstddef>
#include <string>
#include <string_view>

#include "formats/step.h"

namespace penstock::formats {

class Input {
 public:
  /// Waits until it can be said what comes next; that is asked again after every push. Plain values: g++ 12
  /// is not to be trusted with temporaries of a co_await that need destruction, nor with any in a loop's
  /// head.
  struct Wait {
    Input* in;
    std::string_view marker;  // empty: for any byte

    bool await_ready() const { return in->is_known(marker); }
    void await_suspend(std::coroutine_handle<> step) const {
      in->awaited_ = marker;
      in->step_ = step;
    }
  };

  /// Whether there is a byte at the cursor: false at the end of the output.
  struct More : Wait {
    bool await_resume() const { return in->has_byte(); }
  };

  /// Whether the marker comes next; the cursor is then behind it. Waits only while it still may.
  struct Accept : Wait {
    bool await_ready() const { return marker.empty() || Wait::await_ready(); }
    bool await_resume() const { return in->pass(marker); }
  };

  More more() { return {{this, {}}}; }
  Accept accept(std::string_view marker) { return {{this, marker}}; }

  /// These need a byte at the cursor.
  char peek() const { return text_[at_]; }
  char take() { return text_[at_++]; }

  bool ended() const { return ended_; }
  std::string_view rest() const { return std::string_view(text_).substr(at_); }
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
  bool is_known(std::string_view marker) const;
  bool pass(std::string_view marker);
  void resume();

  std::string text_;
  size_t start_ = 0;  // position of text_[0]
  size_t at_ = 0;     // the cursor, in text_
  bool ended_ = false;
  std::coroutine_handle<> step_;  // that waits, for awaited_
  std::string_view awaited_;
};

bool is_space(char c);

/// Passes over spaces and line ends. True.
Step skip_space(Input& in);

/// Appends what comes up to `stop`, at most `most_bytes`, and passes the stop. False if it does not come.
Step read_until(Input& in, std::string_view stop, size_t most_bytes, std::string& out);

}  // namespace penstock::formats
