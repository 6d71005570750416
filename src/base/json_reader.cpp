#include "base/json_reader.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/error.h"

namespace penstock::base {
namespace {

using Members = Json::object_t::Container;

bool has_repeated_names(const Members& members) {
  // Sorted, not hashed: a text cannot be made so that this is slow.
  std::vector<std::string_view> names;
  names.reserve(members.size());
  for (const auto& [name, value] : members) names.push_back(name);
  std::sort(names.begin(), names.end());
  return std::adjacent_find(names.begin(), names.end()) != names.end();
}

void keep_last_of_each_name(Members& members) {
  if (members.size() < 2 || !has_repeated_names(members)) return;
  std::unordered_map<std::string_view, size_t> places;
  Members kept;
  kept.reserve(members.size());  // so that the names in `places` stay where they are
  for (auto& [name, value] : members) {
    const auto found = places.find(name);
    if (found != places.end()) {
      kept[found->second].second = std::move(value);
      continue;
    }
    kept.emplace_back(name, std::move(value));
    places.emplace(kept.back().first, kept.size() - 1);
  }
  members.swap(kept);
}

/// Takes the parser's events. `open_` holds the containers that are not closed, outermost first: a container
/// stays where it is while it is open, since nothing is added to the one around it.
class Builder : public nlohmann::json_sax<Json> {
 public:
  Builder(std::string_view what, const JsonLimits& limits) : what_(what), limits_(limits) {}

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(int64_t value) override { return add(value); }
  bool number_unsigned(uint64_t value) override { return add(value); }
  bool number_float(double value, const std::string&) override { return add(value); }
  bool string(std::string& value) override { return add(std::move(value)); }
  bool binary(Json::binary_t&) override { return false; }
  bool start_object(size_t) override { return open(Json::object()); }
  bool start_array(size_t) override { return open(Json::array()); }

  bool key(std::string& name) override {
    members().emplace_back(std::move(name), Json());
    return true;
  }

  bool end_object() override {
    keep_last_of_each_name(members());
    open_.pop_back();
    return true;
  }

  bool end_array() override {
    open_.pop_back();
    return true;
  }

  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception& error) override {
    std::string_view why = error.what();  // "[json.exception.parse_error.101] parse error at line 1, ..."
    why.remove_prefix(std::min(why.size(), why.find("] ") + 2));
    throw Error(Code::kInvalidRequest,
                "[base.json] expected JSON in " + what_ + "; got a " + std::string(why));
  }

  Json take() { return std::move(root_); }

 private:
  Members& members() { return open_.back()->get_ref<Json::object_t&>(); }

  Json& place(Json value) {
    if (++values_ > limits_.values) {
      throw Error(Code::kTooLarge, "[base.json] expected " + what_ + " to have at most " +
                                       std::to_string(limits_.values) + " JSON values; got more");
    }
    if (open_.empty()) return root_ = std::move(value);
    if (open_.back()->is_object()) return members().back().second = std::move(value);
    return open_.back()->get_ref<Json::array_t&>().emplace_back(std::move(value));
  }

  bool add(Json value) {
    place(std::move(value));
    return true;
  }

  bool open(Json container) {
    if (open_.size() >= limits_.depth) {
      throw Error(Code::kInvalidRequest, "[base.json] expected " + what_ + " nested at most " +
                                             std::to_string(limits_.depth) + " levels; got more");
    }
    open_.push_back(&place(std::move(container)));
    return true;
  }

  const std::string what_;
  const JsonLimits limits_;
  size_t values_ = 0;
  Json root_;
  std::vector<Json*> open_;
};

}  // namespace

Json read_json(std::string_view text, std::string_view what, const JsonLimits& limits) {
  Builder builder(what, limits);
  Json::sax_parse(text, &builder);
  return builder.take();
}

}  // namespace penstock::base
