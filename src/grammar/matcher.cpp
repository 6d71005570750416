#include "grammar/matcher.h"

#include "text/textkit_call.h"

namespace penstock::grammar {
namespace {

/// The crate's ids are unsigned; none is negative.
const uint32_t* ids_of(std::span<const int32_t> tokens) {
  return reinterpret_cast<const uint32_t*>(tokens.data());
}

}  // namespace

void Matcher::Free::operator()(TextkitMatcher* handle) const {
  textkit_matcher_free(handle);
}

Matcher::Matcher(const Grammar& grammar) {
  TextkitMatcher* made = nullptr;
  text::check(textkit_matcher_make(grammar.handle(), &made), "grammar.matcher");
  handle_.reset(made);
}

Matcher::Matcher(const Matcher& other) {
  TextkitMatcher* made = nullptr;
  text::check(textkit_matcher_clone(other.handle_.get(), &made), "grammar.matcher");
  handle_.reset(made);
}

void Matcher::mask(std::span<uint32_t> words) {
  text::check(textkit_matcher_mask(handle_.get(), words.data(), words.size()), "grammar.mask");
}

void Matcher::consume(std::span<const int32_t> tokens) {
  text::check(textkit_matcher_consume(handle_.get(), ids_of(tokens), tokens.size()), "grammar.consume");
}

size_t Matcher::allowed(std::span<const int32_t> tokens) {
  size_t valid = 0;
  text::check(textkit_matcher_validate(handle_.get(), ids_of(tokens), tokens.size(), &valid),
              "grammar.allowed");
  return valid;
}

void Matcher::rollback(size_t n) {
  text::check(textkit_matcher_rollback(handle_.get(), n), "grammar.rollback");
}

Matcher::State Matcher::state() {
  int32_t state = 0;
  text::check(textkit_matcher_state(handle_.get(), &state), "grammar.state");
  return static_cast<State>(state);
}

}  // namespace penstock::grammar
