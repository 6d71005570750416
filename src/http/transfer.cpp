#include "http/transfer.h"

#include <charconv>
#include <utility>

#include "http/uri.h"

namespace penstock::http {
using base::Code;
using base::Error;

namespace {

constexpr size_t kMaxHeadBytes = 256 << 10;

std::string_view trim(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

template <class T>
T number(std::string_view text) {
  T value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

}  // namespace

Error fetch_failure(Code code, const std::string& url, const std::string& what) {
  return {code, "[http.fetch] " + public_url(url) + ": " + what};
}

Transfer::Transfer(const ClientRequest& client_request, std::string url, size_t body_limit_bytes,
                   TransferClock::time_point begin)
    : request(client_request),
      last_byte(TransferClock::now()),
      body_limit_bytes_(body_limit_bytes),
      begin_(begin) {
  hop.url = std::move(url);
}

Error Transfer::cancelled() const {
  return failure(Code::kCancelled, "expected to finish; got a cancellation");
}

bool Transfer::is_redirect() const {
  const int s = hop.status;
  const bool leads_on = s == 301 || s == 302 || s == 303 || s == 307 || s == 308;
  return leads_on && request.max_redirects > 0 && !hop.header("Location").empty();
}

void Transfer::add_head_line(std::string_view line) {
  head_bytes_ += line.size();
  if (head_bytes_ > kMaxHeadBytes) throw failure(Code::kIo, "expected shorter headers; got more");
  if (head_complete_) return;  // a trailer
  line = trim(line);
  if (line.starts_with("HTTP/")) {
    hop.headers.clear();
    const size_t space = line.find(' ');
    hop.status = space == std::string_view::npos ? 0 : number<int>(line.substr(space + 1));
    return;
  }
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos) return;
  hop.headers.push_back(
      {std::string(trim(line.substr(0, colon))), std::string(trim(line.substr(colon + 1)))});
}

void Transfer::end_head() {
  if (std::exchange(head_complete_, true) || is_redirect()) return;
  total_bytes_ = number<uint64_t>(hop.header("Content-Length"));
  if (request.on_head && !request.on_head(hop)) throw cancelled();
}

void Transfer::take(std::string_view piece) {
  if (is_redirect()) return;
  done_bytes_ += piece.size();
  if (request.on_body && is_success()) {
    if (!request.on_body(piece)) throw cancelled();
  } else {
    if (body.size() + piece.size() > body_limit_bytes_) {
      throw failure(Code::kTooLarge,
                    "expected a body of at most " + std::to_string(body_limit_bytes_) + " bytes; got more");
    }
    body += piece;
  }
  if (request.on_progress && is_success() && !request.on_progress(done_bytes_, total_bytes_))
    throw cancelled();
}

void Transfer::check_time() {
  const auto over = [](TransferClock::time_point since, int limit_ms) {
    return limit_ms > 0 && TransferClock::now() - since >= std::chrono::milliseconds(limit_ms);
  };
  if (thrown) return;
  if (request.cancel != nullptr && *request.cancel) {
    thrown = std::make_exception_ptr(cancelled());
  } else if (over(begin_, request.total_timeout_ms)) {
    thrown = std::make_exception_ptr(failure(Code::kTimeout, "expected an end in time; got none"));
  } else if (over(last_byte, request.stall_timeout_ms)) {
    const std::string limit = std::to_string(request.stall_timeout_ms);
    thrown = std::make_exception_ptr(failure(Code::kTimeout, "expected data; got none for " + limit + " ms"));
  }
}

}  // namespace penstock::http
