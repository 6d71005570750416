// What is asked of responses that were made before: look, read their stream, list their input, cancel,
// delete. Called on io threads; answers come from the database's thread.
#pragma once

#include <memory>
#include <utility>

#include "api/responses/creation.h"
#include "api/surface.h"

namespace penstock::api::responses {

class Stored {
 public:
  explicit Stored(std::shared_ptr<Parts> parts) : parts_(std::move(parts)) {}

  void retrieve(const http::Request& request, const ExchangePtr& exchange) const;
  void erase(const http::Request& request, const ExchangePtr& exchange) const;
  void cancel(const http::Request& request, const ExchangePtr& exchange) const;
  void input_items(const http::Request& request, const ExchangePtr& exchange) const;

 private:
  const std::shared_ptr<Parts> parts_;
};

}  // namespace penstock::api::responses
