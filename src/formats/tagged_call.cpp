#include "formats/tagged_call.h"

#include <array>
#include <string>

#include "formats/argument_writer.h"
#include "formats/call_block.h"
#include "formats/json_value.h"
#include "formats/value_kinds.h"

namespace penstock::formats {
namespace {

constexpr size_t kNameBytes = 256;
constexpr std::string_view kCdata = "<![CDATA[", kCdataEnd = "]]>";

/// One call while it is read.
class TaggedCall {
 public:
  TaggedCall(Reading& r, const Tags& tags, std::string_view block_end)
      : r_(r), in_(r.in), tags_(tags), block_end_(block_end), arguments_(r) {}

  Step read() {
    const bool is_declared = co_await read_name_of_call();
    if (!is_declared) co_return false;
    co_await skip_space(in_);
    const bool is_call = co_await goes_on(false);
    if (!is_call) co_return false;
    r_.out.begin_call(name_, "");
    for (;;) {
      co_await skip_space(in_);
      if (co_await in_.accept(tags_.parameter)) {
        const bool is_read = co_await read_parameter();
        if (!is_read) co_return false;
        continue;
      }
      const bool is_end = co_await ends();
      if (!is_end) co_return false;
      arguments_.end();
      co_return true;
    }
  }

 private:
  Step read_name_of_call() {
    co_await skip_space(in_);
    bool is_name = false;
    if (tags_.name_end.empty()) {
      is_name = co_await formats::read_name(in_, "_-.:", name_);
    } else {
      is_name = co_await read_until(in_, tags_.name_end, kNameBytes, name_);
    }
    if (!is_name || !r_.tools.has(name_)) co_return false;
    std::string attributes;
    if (tags_.call_head_end.empty()) co_return true;
    co_return co_await read_until(in_, tags_.call_head_end, kNameBytes, attributes);
  }

  /// Whether a parameter or an end of the call comes, or, where the output may be cut, the beginning of one.
  /// The cursor stays.
  Step goes_on(bool may_be_cut) {
    const size_t begin = in_.position();
    const std::array<std::string_view, 3> markers = {tags_.parameter, tags_.call_end, block_end_};
    bool does = false;
    for (const std::string_view marker : markers) {
      if (marker.empty()) continue;
      does = co_await in_.accept(marker);
      if (!does && may_be_cut) does = in_.ended() && marker.starts_with(in_.rest());
      in_.rewind(begin);
      if (does) break;
    }
    co_return does;
  }

  /// The call's own end, or that of the block, which is left.
  Step ends() {
    if (!tags_.call_end.empty()) {
      if (co_await in_.accept(tags_.call_end)) co_return true;
    }
    if (block_end_.empty()) co_return false;
    const size_t begin = in_.position();
    const bool is_end = co_await in_.accept(block_end_);
    in_.rewind(begin);
    co_return is_end;
  }

  Step read_parameter() {
    std::string key, attributes;
    bool is_key = co_await read_until(in_, tags_.key_end, kNameBytes, key);
    if (!is_key) co_return false;
    if (!tags_.attributes_end.empty()) {
      is_key = co_await read_until(in_, tags_.attributes_end, kNameBytes, attributes);
      if (!is_key) co_return false;
    }
    if (!tags_.value.empty()) {
      co_await skip_space(in_);
      if (!co_await in_.accept(tags_.value)) co_return false;
    }
    arguments_.key(key);
    co_return co_await read_value(kinds(key, attributes));
  }

  /// What the model says of the type counts more than the schema.
  Kinds kinds(std::string_view key, std::string_view attributes) const {
    if (attributes.find("string=\"true\"") != std::string_view::npos) return Kinds::kString;
    if (attributes.find("type=\"string\"") != std::string_view::npos) return Kinds::kString;
    const Kinds by_schema = kinds_of(r_.tools.parameters(name_), key);
    const bool is_other = attributes.find("string=\"false\"") != std::string_view::npos;
    return is_other && by_schema == Kinds::kString ? Kinds::all() : by_schema;
  }

  Step read_value(Kinds kinds) {
    if (tags_.has_cdata) {
      if (co_await in_.accept(kCdata)) co_return co_await read_cdata();
    }
    line_ = {};
    if (tags_.has_lines) {
      if (co_await in_.accept("\n")) {
        line_ = "\n";
      } else if (co_await in_.accept("\r\n")) {
        line_ = "\r\n";
      }
    }
    bool is_other = !kinds.has(Kinds::kString);
    if (!is_other) {
      if (co_await in_.more()) is_other = may_be_other_than_string(kinds, in_.peek());
    }
    std::string text;
    if (!is_other) r_.out.arguments("\"");
    for (;;) {
      if (!co_await in_.more()) co_return false;
      if (in_.peek() == tags_.value_end.front() || line_.starts_with(in_.peek())) {
        const bool is_end = co_await ends_value();
        if (is_end) break;
      }
      const char c = in_.take();
      if (is_other) {
        text += c;
      } else {
        r_.out.arguments(escaped({&c, 1}));
      }
    }
    r_.out.arguments(is_other ? json_of_text(text, kinds) : "\"");
    co_return true;
  }

  /// Passes the value's end if it comes here and the call goes on behind it.
  Step ends_value() {
    const size_t begin = in_.position();
    if (!line_.empty()) co_await in_.accept(line_);
    bool is_end = co_await in_.accept(tags_.value_end);
    const size_t end = in_.position();
    if (is_end) {
      co_await skip_space(in_);
      is_end = co_await goes_on(true);
    }
    in_.rewind(is_end ? end : begin);
    co_return is_end;
  }

  /// All of it is a string.
  Step read_cdata() {
    r_.out.arguments("\"");
    for (;;) {
      const size_t begin = in_.position();
      if (co_await in_.accept(kCdataEnd)) {
        co_await skip_space(in_);
        const bool is_end = co_await ends_value();
        if (is_end) break;
        in_.rewind(begin);
      }
      if (!co_await in_.more()) co_return false;
      const char c = in_.take();
      r_.out.arguments(escaped({&c, 1}));
    }
    r_.out.arguments("\"");
    co_return true;
  }

  Reading& r_;
  Input& in_;
  const Tags& tags_;
  std::string_view block_end_;
  ArgumentWriter arguments_;
  std::string name_;
  std::string_view line_;  // the line end with which the value began, if that belongs to its tags
};

}  // namespace

Step read_tagged_call(Reading& r, const Tags& tags, std::string_view block_end) {
  TaggedCall call(r, tags, block_end);
  co_return co_await call.read();
}

Step read_tagged_block(Reading& r, const Tags& tags, std::string_view closer) {
  const auto read_call = [&tags, closer](Reading& reading) {
    return read_tagged_call(reading, tags, closer);
  };
  return read_call_block(r, tags.call, closer, read_call);
}

}  // namespace penstock::formats
