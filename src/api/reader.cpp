#include "api/reader.h"

#include <cmath>
#include <utility>

#include "base/error.h"

namespace penstock::api {
namespace {

using base::Code;
using base::Error;
using base::Json;

std::string text_of(double value) {
  return Json(value).dump();
}

}  // namespace

std::string shown(const Json& value) {
  constexpr size_t kShownBytes = 80;
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > kShownBytes) text = text.substr(0, kShownBytes) + "...";
  return text;
}

Reader::Reader(const Json& object, std::string path) : object_(&object), path_(std::move(path)) {
  if (object.is_object()) return;
  std::string name = path_.empty() ? "the body" : path_.substr(0, path_.size() - 1);
  throw Error(Code::kInvalidRequest,
              "[api.decode] expected " + name + " to be an object; got " + shown(object),
              path_.empty() ? "" : name);
}

const Json* Reader::find(std::string_view name) const {
  const auto found = object_->find(name);
  return found == object_->end() || found->is_null() ? nullptr : &*found;
}

void Reader::reject(std::string_view name, const std::string& expected) const {
  const Json* value = find(name);
  throw Error(Code::kInvalidRequest,
              "[api.decode] expected " + path(name) + " to be " + expected + "; got " +
                  (value == nullptr ? "nothing" : shown(*value)),
              path(name));
}

std::optional<bool> Reader::boolean(std::string_view name) const {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) reject(name, "true or false");
  return value->get<bool>();
}

std::optional<std::string> Reader::string(std::string_view name) const {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) reject(name, "a text");
  return value->get<std::string>();
}

std::optional<double> Reader::number(std::string_view name, double min, double max) const {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  const double number = value->is_number() ? value->get<double>() : std::nan("");
  if (!(number >= min && number <= max))
    reject(name, "a number from " + text_of(min) + " to " + text_of(max));
  return number;
}

std::optional<int64_t> Reader::integer(std::string_view name, int64_t min, int64_t max) const {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  const bool is_too_big = value->is_number_unsigned() && value->get<uint64_t>() > static_cast<uint64_t>(max);
  if (!value->is_number_integer() || is_too_big || value->get<int64_t>() < min) {
    const bool is_open = max == std::numeric_limits<int64_t>::max();
    reject(name,
           "a whole number " + (is_open ? "of at least " + std::to_string(min)
                                        : "from " + std::to_string(min) + " to " + std::to_string(max)));
  }
  return value->get<int64_t>();
}

}  // namespace penstock::api
