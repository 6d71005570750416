#include "http/listener.h"

#include <utility>

#include <boost/asio/ip/v6_only.hpp>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"

namespace penstock::http {
namespace net = boost::asio;
using boost::system::error_code;

namespace {

constexpr int kBacklog = 1024;
constexpr auto kRetryDelay = std::chrono::milliseconds(50);

base::Error io_error(const std::string& expected, const std::string& got) {
  return {base::Code::kIo, "[http.listen] expected " + expected + "; got " + got};
}

/// A child process must not hold the port.
template <class Acceptor>
void close_on_exec(Acceptor& acceptor) {
  if (acceptor.is_open()) ::fcntl(acceptor.native_handle(), F_SETFD, FD_CLOEXEC);
}

/// A socket file that nobody listens on is left over from a process that died.
void remove_stale_socket(net::io_context& context, const std::string& path) {
  struct stat entry {};
  if (::lstat(path.c_str(), &entry) != 0) return;
  if (!S_ISSOCK(entry.st_mode))
    throw io_error("a free path for --unix-socket", path + ", which is a file of another kind");
  net::local::stream_protocol::socket probe(context);
  error_code ec;
  probe.connect(path, ec);
  if (!ec) throw io_error("a free path for --unix-socket", path + ", where another process listens");
  if (ec == net::error::connection_refused) ::unlink(path.c_str());
}

}  // namespace

Listener::Listener(net::io_context& context, NextContext next, OnAccept on_accept)
    : context_(context), next_(std::move(next)), on_accept_(std::move(on_accept)), retry_timer_(context) {}

void Listener::bind_tcp(const std::string& host, int port) {
  const std::string place = host + " port " + std::to_string(port);
  if (port > 65535) throw io_error("a --port of at most 65535", std::to_string(port));
  error_code ec;
  Tcp::resolver resolver(context_);
  const auto found = resolver.resolve(host, std::to_string(port), Tcp::resolver::passive, ec);
  if (ec || found.empty()) throw io_error("a --host that resolves", host + " (" + ec.message() + ")");
  Tcp::endpoint endpoint = found.begin()->endpoint();
  for (const auto& entry : found) {  // a name with both kinds means the older one to most clients
    if (entry.endpoint().address().is_v4()) {
      endpoint = entry.endpoint();
      break;
    }
  }
  tcp_.emplace(context_);
  tcp_->open(endpoint.protocol(), ec);
  if (!ec) tcp_->set_option(Tcp::acceptor::reuse_address(true), ec);
  if (!ec && endpoint.address().is_v6()) tcp_->set_option(net::ip::v6_only(false), ec);
  if (!ec) tcp_->bind(endpoint, ec);
  if (!ec) tcp_->listen(kBacklog, ec);
  close_on_exec(*tcp_);
  if (ec == net::error::address_in_use) {
    throw io_error("a free port", place + ", which is in use: choose another with --port");
  }
  if (ec == net::error::access_denied) throw io_error("a port this user may open (--port)", place);
  if (ec) throw io_error("to listen on --host and --port", place + " (" + ec.message() + ")");
  port_ = tcp_->local_endpoint().port();
}

void Listener::bind_unix(const std::string& path) {
  remove_stale_socket(context_, path);
  error_code ec;
  Local::endpoint endpoint;
  try {
    endpoint = Local::endpoint(path);
  } catch (const boost::system::system_error&) {
    throw io_error("a shorter path for --unix-socket", path);
  }
  unix_.emplace(context_);
  unix_->open(endpoint.protocol(), ec);
  close_on_exec(*unix_);
  if (!ec) unix_->bind(endpoint, ec);
  // Before listen() nobody can connect, so the mode is never wider than this for a client.
  if (!ec && ::chmod(path.c_str(), S_IRUSR | S_IWUSR) != 0) ec = {errno, boost::system::system_category()};
  if (!ec) unix_->listen(kBacklog, ec);
  if (ec) throw io_error("to listen on --unix-socket", path + " (" + ec.message() + ")");
  unix_path_ = path;
}

void Listener::accept() {
  if (tcp_) accept_tcp();
  if (unix_) accept_unix();
}

void Listener::accept_tcp() {
  net::io_context& home = next_();
  tcp_->async_accept(home, [this, &home](const error_code& ec, Tcp::socket socket) {
    if (closed_ || ec == net::error::operation_aborted) return;
    if (ec) return retry(&Listener::accept_tcp);
    error_code ignored;
    socket.set_option(Tcp::no_delay(true), ignored);
    socket.set_option(Tcp::socket::keep_alive(true), ignored);
    const auto peer = socket.remote_endpoint(ignored);
    std::string name = peer.address().to_string(ignored);
    if (peer.address().is_v6()) name = "[" + name + "]";
    on_accept_(home, Socket(std::move(socket)), name + ":" + std::to_string(peer.port()));
    accept_tcp();
  });
}

void Listener::accept_unix() {
  net::io_context& home = next_();
  unix_->async_accept(home, [this, &home](const error_code& ec, Local::socket socket) {
    if (closed_ || ec == net::error::operation_aborted) return;
    if (ec) return retry(&Listener::accept_unix);
    on_accept_(home, Socket(std::move(socket)), "unix");
    accept_unix();
  });
}

/// After an error such as too many open files: not at once, since it would spin.
void Listener::retry(void (Listener::*again)()) {
  retry_timer_.expires_after(kRetryDelay);
  retry_timer_.async_wait([this, again](const error_code& ec) {
    if (!ec) (this->*again)();
  });
}

void Listener::close() {
  closed_ = true;
  error_code ec;
  retry_timer_.cancel();
  if (tcp_) tcp_->close(ec);
  if (unix_) unix_->close(ec);
  if (!unix_path_.empty()) ::unlink(unix_path_.c_str());
  unix_path_.clear();
}

}  // namespace penstock::http
