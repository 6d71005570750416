#include "http/exchange.h"

#include <utility>

#include "http/exchange_state.h"

namespace penstock::http {

Stream::Stream(std::shared_ptr<ExchangeState> state) : state_(std::move(state)) {}
Stream::~Stream() {
  state_->abort();
}
bool Stream::write(std::string_view chunk) {
  return state_->write(chunk);
}
void Stream::finish() {
  state_->finish();
}
void Stream::abort() {
  state_->abort();
}
bool Stream::closed() const {
  return state_->closed();
}

Exchange::Exchange(std::shared_ptr<ExchangeState> state) : state_(std::move(state)) {}
Exchange::~Exchange() {
  if (state_ != nullptr) state_->drop_exchange();
}

void Exchange::respond(Response response) {
  state_->respond(std::move(response));
}

std::shared_ptr<Stream> Exchange::start_stream(Response head, StreamOptions options) {
  state_->start_stream(std::move(head), std::move(options));
  return std::make_shared<Stream>(state_);
}

void Exchange::on_disconnect(std::function<void()> callback) {
  state_->on_disconnect(std::move(callback));
}
bool Exchange::disconnected() const {
  return state_->disconnected();
}

}  // namespace penstock::http
