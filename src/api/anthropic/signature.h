// Signatures of thinking blocks: a client must send such a block back as it came. Immutable; any thread.
#pragma once

#include <string>
#include <string_view>

namespace penstock::api::anthropic {

class Signer {
 public:
  /// Signatures are those of this key only; one that is empty is made up. Throws Error(kInvalidRequest) for
  /// one that is too short to be a secret.
  explicit Signer(std::string key);

  std::string sign(std::string_view thinking) const;
  /// Takes as long for a wrong signature as for the right one.
  bool is_signed(std::string_view thinking, std::string_view signature) const;

 private:
  const std::string key_;
};

}  // namespace penstock::api::anthropic
