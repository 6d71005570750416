// What JSON types a tool's schema lets a parameter have, and text of formats without types turned into them.
// Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/json.h"

namespace penstock::formats {

/// A set of JSON types.
class Kinds {
 public:
  enum Kind : uint8_t {
    kString = 1,
    kNumber = 2,  // integers too
    kBoolean = 4,
    kNull = 8,
    kArray = 16,
    kObject = 32,
  };

  constexpr Kinds() = default;
  constexpr Kinds(Kind kind) : bits_(kind) {}

  static constexpr Kinds all() {
    Kinds out;
    out.bits_ = kString | kNumber | kBoolean | kNull | kArray | kObject;
    return out;
  }

  constexpr bool has(Kind kind) const { return (bits_ & kind) != 0; }
  constexpr bool empty() const { return bits_ == 0; }
  constexpr void add(Kinds other) { bits_ |= other.bits_; }
  constexpr bool operator==(const Kinds&) const = default;

 private:
  uint8_t bits_ = 0;
};

/// The types of one parameter; all where the schema does not say. `parameters` is the schema of the tool's
/// arguments, or null.
Kinds kinds_of(const base::Json* parameters, std::string_view parameter);

/// Whether a text whose first byte is `first` can be something else than a string; then it is only known what
/// it is once it is whole.
bool may_be_other_than_string(Kinds kinds, char first);

/// JSON of a value that is written as plain text: by the types that it may have, else a string. Numbers keep
/// their digits. Arrays and objects are JSON or Python.
std::string json_of_text(std::string_view text, Kinds kinds);

}  // namespace penstock::formats
