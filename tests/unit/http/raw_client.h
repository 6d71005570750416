// A raw socket for the HTTP tests: sends any bytes, half-closes, resets. Each wait is bounded by kPatience,
// which a test that passes never comes near.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>

namespace penstock::http::test {

constexpr auto kPatience = std::chrono::seconds(60);

class RawClient {
 public:
  /// Connects to 127.0.0.1; `receive_bytes` above 0 sets a small receive buffer first.
  explicit RawClient(int port, int receive_bytes = 0);
  explicit RawClient(const std::string& unix_path);
  ~RawClient();
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  void send(std::string_view bytes);
  /// False once the peer does not take them.
  bool try_send(std::string_view bytes);
  void half_close();
  void reset();  // RST
  void close();

  /// Reads until all received bytes have `text` in them. False at the end of the stream or of patience.
  bool read_until(std::string_view text, size_t times = 1);
  /// Reads to the end of the stream; false if it does not come.
  bool read_to_end();
  /// One response with Content-Length or chunked coding (or `head_only`), taken from the front of what was
  /// received.
  std::string read_response(bool head_only = false);
  const std::string& received() const { return received_; }
  bool was_reset() const { return was_reset_; }

 private:
  bool read_some();

  int fd_ = -1;
  std::string received_;
  bool was_reset_ = false;
};

/// Waits until `condition` holds; false when patience ends.
bool eventually(const std::function<bool()>& condition);

size_t count_of(std::string_view text, std::string_view part);

}  // namespace penstock::http::test
