#include "tensor/weights.h"

#include <algorithm>
#include <vector>

#include "base/error.h"

namespace penstock::tensor {
namespace {

using base::Code;
using base::Error;

constexpr size_t kNearNames = 3;
constexpr size_t kNamedLeftovers = 10;

/// Levenshtein distance.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

std::string near_names(const Checkpoint& checkpoint, std::string_view name) {
  std::vector<std::pair<size_t, std::string_view>> ranked;
  for (const auto& [other, tensor] : checkpoint.tensors()) {
    if (other.size() < 256 && name.size() < 256) ranked.emplace_back(distance(name, other), other);
  }
  const size_t count = std::min(kNearNames, ranked.size());
  std::partial_sort(ranked.begin(), ranked.begin() + static_cast<std::ptrdiff_t>(count), ranked.end());
  std::string out;
  for (size_t i = 0; i < count && ranked[i].first <= name.size() / 2; ++i) {
    out += (out.empty() ? "; near names: " : ", ") + std::string(ranked[i].second);
  }
  return out;
}

/// `*` stands for any run of characters.
bool matches(std::string_view pattern, std::string_view text) {
  size_t p = 0;
  size_t t = 0;
  size_t star = std::string_view::npos;
  size_t retry = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      retry = t;
    } else if (p < pattern.size() && pattern[p] == text[t]) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++retry;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace

Weights::Weights(std::shared_ptr<const Checkpoint> checkpoint)
    : checkpoint_(std::move(checkpoint)), used_(std::make_shared<std::set<std::string, std::less<>>>()) {}

Weights Weights::scope(std::string_view prefix) const {
  Weights inner = *this;
  inner.prefix_ += prefix;
  return inner;
}

bool Weights::has(std::string_view name) const {
  return checkpoint_->find(full_name(name)) != nullptr;
}

const StoredTensor& Weights::take_stored(std::string_view name) {
  const std::string full = full_name(name);
  const StoredTensor* tensor = checkpoint_->find(full);
  if (tensor == nullptr) {
    throw Error(Code::kCorrupt, "[tensor.take] expected a tensor " + full + " in " +
                                    checkpoint_->path().string() + "; got none" +
                                    near_names(*checkpoint_, full));
  }
  used_->insert(full);
  return *tensor;
}

View Weights::take_any(std::string_view name) {
  const StoredTensor& tensor = take_stored(name);
  if (!tensor.dtype) {
    throw Error(Code::kUnsupported, "[tensor.take] expected a plain element type for " + tensor.name +
                                        " in " + checkpoint_->path().string() + "; got " + tensor.type);
  }
  return {*tensor.dtype, tensor.shape, tensor.bytes};
}

View Weights::take(std::string_view name, const Shape& shape) {
  View view = take_any(name);
  if (view.shape != shape) {
    throw Error(Code::kCorrupt, "[tensor.take] expected shape " + to_string(shape) + " of " +
                                    full_name(name) + " in " + checkpoint_->path().string() + "; got " +
                                    to_string(view.shape));
  }
  return view;
}

void Weights::ignore(std::string_view pattern) {
  const std::string full = full_name(pattern);
  for (const auto& [name, tensor] : checkpoint_->tensors()) {
    if (matches(full, name)) used_->insert(name);
  }
}

void Weights::finish() const {
  std::vector<std::string_view> left;
  for (const auto& [name, tensor] : checkpoint_->tensors()) {
    if (!used_->contains(name)) left.push_back(name);
  }
  if (left.empty()) return;
  std::string names;
  for (size_t i = 0; i < std::min(left.size(), kNamedLeftovers); ++i) {
    names += (i ? ", " : "") + std::string(left[i]);
  }
  throw Error(Code::kCorrupt, "[tensor.finish] expected every tensor of " + checkpoint_->path().string() +
                                  " to have a use; got " + std::to_string(left.size()) +
                                  " without: " + names + (left.size() > kNamedLeftovers ? ", ..." : ""));
}

}  // namespace penstock::tensor
