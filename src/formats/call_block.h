// Reads several calls that stand in one block or list.
#pragma once

#include <string_view>

#include "formats/reading.h"

namespace penstock::formats {

/// Calls that begin with `call` and that `read_call` (a Step of a Reading) reads from behind it, up to the
/// block's end, which may be missing. True if there is one; what is none, after the first, is left as text.
template <class ReadCall>
Step read_call_block(Reading& r, std::string_view call, std::string_view end, ReadCall read_call) {
  for (bool has_call = false;; has_call = true) {
    co_await skip_space(r.in);
    if (has_call && !end.empty()) {
      if (co_await r.in.accept(end)) co_return true;
    }
    const size_t begin = r.in.position(), calls = r.out.calls();
    bool is_call = co_await r.in.accept(call);
    if (is_call) is_call = co_await read_call(r);
    if (is_call) continue;
    if (r.out.calls() == calls) r.in.rewind(begin);
    co_return has_call;
  }
}

/// Behind an opening bracket: calls that `read_call` reads, parted by commas, to behind the closing bracket.
/// A call of the list that is none is text, from where it begins.
template <class ReadCall>
Step read_call_list(Reading& r, ReadCall read_call) {
  for (;;) {
    co_await skip_space(r.in);
    const size_t begin = r.in.position(), calls = r.out.calls();
    const bool is_call = co_await read_call(r);
    if (!is_call) {
      if (r.out.calls() == calls) r.in.rewind(begin);
      co_return false;
    }
    co_await skip_space(r.in);
    const bool has_next = co_await r.in.accept(",");
    if (!has_next) co_return co_await r.in.accept("]");
  }
}

}  // namespace penstock::formats
