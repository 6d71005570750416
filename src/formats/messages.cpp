#include "formats/messages.h"

#include <algorithm>
#include <string>

#include "formats/json_call.h"
#include "formats/tool_format.h"

namespace penstock::formats {
namespace {

constexpr size_t kHeaderBytes = 512;

class Messages {
 public:
  Messages(Reading& r, const MessageShape& shape, const std::vector<Opener>& openers, bool has_reasoning)
      : r_(r), in_(r.in), shape_(shape), openers_(openers), has_reasoning_(has_reasoning) {}

  Step read(bool in_reasoning) {
    if (in_reasoning) co_await read_text(has_reasoning_);
    bool is_first = !in_reasoning;
    for (;;) {
      const bool has_byte = co_await in_.more();
      if (!has_byte) break;
      const bool is_header = co_await read_header(is_first);
      is_first = false;
      if (!is_header) {
        co_await read_text(false);
        continue;
      }
      if (is_cut_) break;
      const std::string tool = recipient();
      bool is_call = false;
      if (r_.tools.has(tool)) is_call = co_await read_call(tool);
      if (is_call) continue;
      const bool thinks = has_reasoning_ && header_.find(shape_.thinks) != std::string::npos;
      co_await read_text(thinks);
    }
    co_return true;
  }

 private:
  /// A header from its start to behind its end. One that the output breaks off in counts, and is all that is
  /// left.
  Step read_header(bool is_first) {
    header_.clear();
    const size_t begin = in_.position();
    bool is_start = false;
    for (const std::string_view start : shape_.starts) {
      is_start = co_await in_.accept(start);
      if (is_start) break;
    }
    const bool is_marked = is_start;
    if (!is_start && is_first) {
      for (const std::string_view start : shape_.first_starts) {
        is_start = co_await in_.accept(start);
        if (is_start) break;
      }
    }
    if (!is_start) co_return false;
    in_.rewind(begin);
    bool is_header = co_await read_until(in_, shape_.body, kHeaderBytes, header_);
    is_cut_ = !is_header && is_marked && in_.ended() && !in_.has_byte();
    if (!is_header && !is_cut_) in_.rewind(begin);
    co_return is_header || is_cut_;
  }

  std::string recipient() const {
    if (shape_.recipient.empty()) return "";
    const size_t begin = header_.find(shape_.recipient);
    if (begin == std::string::npos) return "";
    std::string name = header_.substr(begin + shape_.recipient.size());
    name.resize(std::min(name.find_first_of(" <\n"), name.size()));
    return name;
  }

  /// True with the cursor behind the body's end, also where the call broke off.
  Step read_call(const std::string& name) {
    const size_t begin = in_.position(), calls = r_.out.calls();
    const bool is_call = co_await read_json_arguments(r_, name, "");
    if (!is_call && r_.out.calls() == calls) {
      in_.rewind(begin);
      co_return false;
    }
    if (is_call) co_await skip_space(in_);
    co_await read_text(false);
    co_return true;
  }

  /// A body, to behind its end.
  Step read_text(bool is_reasoning) {
    for (;;) {
      const bool has_byte = co_await in_.more();
      if (!has_byte) break;
      if (in_.peek() == '<') {
        const bool is_end = co_await ends();
        if (is_end) co_return true;
        const bool is_call = co_await read_opened();
        if (is_call) continue;
      }
      const size_t begin = in_.position();
      in_.take();
      const std::string_view text = in_.between(begin, in_.position());
      if (is_reasoning) {
        r_.out.reasoning(text, begin);
      } else {
        r_.out.text(text, begin);
      }
      in_.forget();
    }
    co_return true;
  }

  Step ends() {
    for (const std::string_view end : shape_.ends) {
      if (co_await in_.accept(end)) co_return true;
    }
    const size_t begin = in_.position();
    const bool is_next = co_await read_header(false);
    in_.rewind(begin);
    co_return is_next;
  }

  Step read_opened() {
    const size_t begin = in_.position(), calls = r_.out.calls();
    for (const Opener& opener : openers_) {
      if (!co_await in_.accept(opener.marker)) continue;
      const bool is_read = co_await opener.read(r_, opener);
      if (is_read || r_.out.calls() > calls) co_return true;
      in_.rewind(begin);
    }
    co_return false;
  }

  Reading& r_;
  Input& in_;
  const MessageShape& shape_;
  const std::vector<Opener>& openers_;
  const bool has_reasoning_;
  std::string header_;
  bool is_cut_ = false;  // the output ends inside the header
};

}  // namespace

Step read_messages(Reading& r, const MessageShape& shape, const std::vector<Opener>& openers,
                   bool has_reasoning, bool in_reasoning) {
  Messages messages(r, shape, openers, has_reasoning);
  co_return co_await messages.read(in_reasoning);
}

}  // namespace penstock::formats
