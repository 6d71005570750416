#include "unit/http/raw_client.h"

#include <array>
#include <cerrno>
#include <stdexcept>
#include <thread>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace penstock::http::test {

RawClient::RawClient(int port, int receive_bytes) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
  if (receive_bytes > 0) ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof(receive_bytes));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    throw std::runtime_error("cannot connect");
  }
}

RawClient::RawClient(const std::string& unix_path) : fd_(::socket(AF_UNIX, SOCK_STREAM, 0)) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  unix_path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  if (::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    throw std::runtime_error("cannot connect");
  }
}

RawClient::~RawClient() {
  close();
}

bool RawClient::try_send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

void RawClient::send(std::string_view bytes) {
  if (!try_send(bytes)) throw std::runtime_error("the server does not take bytes");
}

void RawClient::half_close() {
  ::shutdown(fd_, SHUT_WR);
}

void RawClient::reset() {
  const linger hard{1, 0};
  ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
  close();
}

void RawClient::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

bool RawClient::read_some() {
  pollfd entry{fd_, POLLIN, 0};
  // Second by second: a process that was stopped for a while has not lost its patience.
  int ready = 0;
  for (auto left = kPatience; ready == 0 && left.count() > 0; --left) ready = ::poll(&entry, 1, 1000);
  if (ready <= 0) return false;
  std::array<char, 65536> buffer;
  const ssize_t got = ::recv(fd_, buffer.data(), buffer.size(), 0);
  if (got < 0) was_reset_ = errno == ECONNRESET;
  if (got <= 0) return false;
  received_.append(buffer.data(), static_cast<size_t>(got));
  return true;
}

bool RawClient::read_until(std::string_view text, size_t times) {
  while (count_of(received_, text) < times) {
    if (!read_some()) return false;
  }
  return true;
}

bool RawClient::read_to_end() {
  while (read_some()) {
  }
  pollfd entry{fd_, POLLIN, 0};
  char c = 0;
  return was_reset_ || (::poll(&entry, 1, 0) == 1 && ::recv(fd_, &c, 1, MSG_PEEK) == 0);
}

std::string RawClient::read_response(bool head_only) {
  size_t end = std::string::npos;
  while ((end = received_.find("\r\n\r\n")) == std::string::npos) {
    if (!read_some()) throw std::runtime_error("no response head; got: " + received_);
  }
  const std::string head = received_.substr(0, end + 4);
  size_t total = head.size();
  const size_t length = head.find("Content-Length: ");
  if (!head_only && head.find("Transfer-Encoding: chunked") != std::string::npos) {
    size_t last = 0;
    while ((last = received_.find("\r\n0\r\n\r\n", head.size() - 2)) == std::string::npos) {
      if (!read_some()) throw std::runtime_error("no last chunk; got: " + received_);
    }
    total = last + 7;
  } else if (!head_only && length != std::string::npos) {
    total += std::stoul(head.substr(length + 16));
  }
  while (received_.size() < total) {
    if (!read_some()) throw std::runtime_error("short response; got: " + received_);
  }
  const std::string response = received_.substr(0, total);
  received_.erase(0, total);
  return response;
}

bool eventually(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

size_t count_of(std::string_view text, std::string_view part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + part.size()))
    ++count;
  return count;
}

}  // namespace penstock::http::test
