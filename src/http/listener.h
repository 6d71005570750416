// Listening sockets: TCP and Unix. Bound by the owner thread, then used by one io thread.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>

#include "http/connection.h"

namespace penstock::http {

class Listener {
 public:
  /// Where the next connection goes to live, and what takes it there (both on the listener's io thread).
  using NextContext = std::function<boost::asio::io_context&()>;
  using OnAccept = std::function<void(boost::asio::io_context& home, Socket, std::string peer)>;

  Listener(boost::asio::io_context& context, NextContext next, OnAccept on_accept);

  /// Throw Error(kIo) that names address and flag.
  void bind_tcp(const std::string& host, int port);
  void bind_unix(const std::string& path);

  int port() const { return port_; }
  void accept();  // begins; io thread
  void close();   // io thread, or any when it does not run; removes the Unix socket's file

 private:
  using Tcp = boost::asio::ip::tcp;
  using Local = boost::asio::local::stream_protocol;

  void accept_tcp();
  void accept_unix();
  void retry(void (Listener::*again)());

  boost::asio::io_context& context_;
  const NextContext next_;
  const OnAccept on_accept_;
  std::optional<Tcp::acceptor> tcp_;
  std::optional<Local::acceptor> unix_;
  boost::asio::steady_timer retry_timer_;
  std::string unix_path_;
  int port_ = 0;
  bool closed_ = false;
};

}  // namespace penstock::http
