#include "tensor/gguf.h"

#include <limits>

#include "base/error.h"

namespace penstock::tensor {
namespace {

base::Error wrong(const std::string& what, std::string_view key, std::string_view expected,
                  std::string_view got) {
  return base::Error(base::Code::kCorrupt, "[tensor.gguf] expected " + std::string(expected) +
                                               " for the key " + std::string(key) + " in " + what + "; got " +
                                               std::string(got));
}

std::string_view kind_name(const GgufValue& value) {
  static constexpr std::string_view kNames[] = {
      "an integer", "an unsigned integer", "a number", "a bool", "a text", "integers", "numbers",
      "texts",      "nested arrays"};
  return kNames[value.index()];
}

}  // namespace

const GgufValue* Gguf::find(std::string_view key) const {
  const auto found = metadata_.find(key);
  return found == metadata_.end() ? nullptr : &found->second;
}

const GgufValue& Gguf::get(std::string_view key, std::string_view expected) const {
  const GgufValue* value = find(key);
  if (value == nullptr) throw wrong(what_, key, expected, "none");
  return *value;
}

int64_t Gguf::integer(std::string_view key) const {
  const GgufValue& value = get(key, "an integer");
  if (const auto* number = std::get_if<int64_t>(&value)) return *number;
  const auto* number = std::get_if<uint64_t>(&value);
  if (number == nullptr) throw wrong(what_, key, "an integer", kind_name(value));
  if (*number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    throw wrong(what_, key, "an integer below 2^63", std::to_string(*number));
  }
  return static_cast<int64_t>(*number);
}

double Gguf::number(std::string_view key) const {
  const GgufValue& value = get(key, "a number");
  if (const auto* number = std::get_if<double>(&value)) return *number;
  return static_cast<double>(integer(key));
}

bool Gguf::boolean(std::string_view key) const {
  const GgufValue& value = get(key, "a bool");
  const auto* flag = std::get_if<bool>(&value);
  if (flag == nullptr) throw wrong(what_, key, "a bool", kind_name(value));
  return *flag;
}

std::string_view Gguf::text(std::string_view key) const {
  const GgufValue& value = get(key, "a text");
  const auto* text = std::get_if<std::string_view>(&value);
  if (text == nullptr) throw wrong(what_, key, "a text", kind_name(value));
  return *text;
}

std::span<const int64_t> Gguf::integers(std::string_view key) const {
  const GgufValue& value = get(key, "integers");
  const auto* integers = std::get_if<std::vector<int64_t>>(&value);
  if (integers == nullptr) throw wrong(what_, key, "integers", kind_name(value));
  return *integers;
}

std::span<const float> Gguf::numbers(std::string_view key) const {
  const GgufValue& value = get(key, "numbers");
  const auto* numbers = std::get_if<std::vector<float>>(&value);
  if (numbers == nullptr) throw wrong(what_, key, "numbers", kind_name(value));
  return *numbers;
}

std::span<const std::string_view> Gguf::texts(std::string_view key) const {
  const GgufValue& value = get(key, "texts");
  const auto* texts = std::get_if<std::vector<std::string_view>>(&value);
  if (texts == nullptr) throw wrong(what_, key, "texts", kind_name(value));
  return *texts;
}

}  // namespace penstock::tensor
