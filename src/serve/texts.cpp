#include "serve/texts.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace penstock::serve {
namespace {

using base::Code;
using base::Error;
using Ids = std::vector<int32_t>;

/// What the tokenizer puts around a text, and how much of a text there is room for.
class Layout {
 public:
  Layout(const chat::EncodeRequest& request, const pool::Model& model)
      : request_(request), codec_(*model.codec), limit_(static_cast<size_t>(model.context_length)) {
    // A text that is one token, whichever that is, shows what goes before it and what behind it.
    const Ids bare = codec_.encode("a", false), whole = codec_.encode("a", true);
    const auto at = std::search(whole.begin(), whole.end(), bare.begin(), bare.end());
    before_.assign(whole.begin(), at);
    if (at != whole.end()) behind_.assign(at + static_cast<long>(bare.size()), whole.end());
  }

  engine::EncodeJob::Text single(const std::string& written, const std::string& field) const {
    Ids ids = codec_.encode(written, false);
    const size_t around = before_.size() + behind_.size();
    if (ids.size() + around > limit_) {
      require_truncation(ids.size() + around, field, "");
      ids.resize(limit_ - std::min(limit_, around));
    }
    return {joined({&before_, &ids, &behind_}), {}};
  }

  /// As it is, without anything around it.
  engine::EncodeJob::Text single(Ids ids, const std::string& field) const {
    if (ids.size() > limit_) {
      require_truncation(ids.size(), field, "");
      ids.resize(limit_);
    }
    return {std::move(ids), {}};
  }

  /// As BERT takes pairs: [CLS] query [SEP] document [SEP], the document and its end being of type 1.
  engine::EncodeJob::Text pair(Ids query, const std::string& written, const std::string& field) const {
    Ids document = codec_.encode(written, false);
    const size_t around = before_.size() + 2 * behind_.size();
    if (const size_t n = query.size() + document.size() + around; n > limit_) {
      require_truncation(n, field, " together with the query");
      for (size_t over = n - limit_; over > 0 && !(query.empty() && document.empty()); --over)
        (query.size() > document.size() ? query : document).pop_back();
    }
    engine::EncodeJob::Text out{joined({&before_, &query, &behind_, &document, &behind_}), {}};
    out.types.assign(out.ids.size(), 1);
    std::fill_n(out.types.begin(), before_.size() + query.size() + behind_.size(), 0);
    return out;
  }

  Ids ids(const std::string& text) const { return codec_.encode(text, false); }

 private:
  void require_truncation(size_t n, const std::string& field, const char* with) const {
    if (request_.truncate) return;
    throw Error(Code::kContextLength,
                "[serve.texts] expected at most " + std::to_string(limit_) + " tokens as " + field + with +
                    ", or truncate to be true; got " + std::to_string(n),
                field);
  }

  static Ids joined(std::initializer_list<const Ids*> parts) {
    Ids all;
    for (const Ids* part : parts) all.insert(all.end(), part->begin(), part->end());
    return all;
  }

  const chat::EncodeRequest& request_;
  const text::Codec& codec_;
  const size_t limit_;
  Ids before_, behind_;
};

/// "input[2]", or "input" where there is one.
std::string place(const chat::EncodeRequest& request, size_t index, size_t count) {
  return count == 1 ? request.field : request.field + "[" + std::to_string(index) + "]";
}

}  // namespace

void check(const chat::EncodeRequest& request, const pool::Model& model) {
  const auto* embed = std::get_if<chat::Embed>(&request.input);
  if (model.encoder == nullptr || model.scores_pairs != (embed == nullptr)) {
    const char* has = model.encoder == nullptr ? "generates text"
                      : model.scores_pairs     ? "ranks documents"
                                               : "embeds texts and has no head that scores a pair of them";
    throw Error(Code::kUnsupported,
                "[serve.texts] expected a model that " +
                    std::string(embed != nullptr ? "embeds texts" : "ranks documents") + "; got " + model.id +
                    ", which " + has,
                "model");
  }
  if (embed == nullptr || !embed->dimensions || *embed->dimensions <= model.encoder->width()) return;
  throw Error(Code::kInvalidRequest,
              "[serve.texts] expected dimensions of at most " + std::to_string(model.encoder->width()) +
                  ", those of " + model.id + "; got " + std::to_string(*embed->dimensions),
              "dimensions");
}

engine::EncodeJob prepare_texts(const chat::EncodeRequest& request, const pool::Model& model) {
  const Layout layout(request, model);
  engine::EncodeJob job;
  if (const auto* rank = std::get_if<chat::Rank>(&request.input)) {
    const Ids query = layout.ids(rank->query);
    for (size_t i = 0; i < rank->documents.size(); ++i)
      job.texts.push_back(
          layout.pair(query, rank->documents[i], request.field + "[" + std::to_string(i) + "]"));
    return job;
  }
  const auto& texts = std::get<chat::Embed>(request.input).texts;
  for (size_t i = 0; i < texts.size(); ++i) {
    const std::string field = place(request, i, texts.size());
    job.texts.push_back(std::visit([&](const auto& text) { return layout.single(text, field); }, texts[i]));
  }
  return job;
}

std::vector<float> first_dimensions(std::vector<float> values, size_t width, size_t dimensions) {
  if (dimensions >= width) return values;
  std::vector<float> out;
  for (size_t at = 0; at < values.size(); at += width) {
    double sum = 0;
    for (size_t i = at; i < at + dimensions; ++i) sum += double{values[i]} * values[i];
    const double length = std::max(std::sqrt(sum), 1e-12);
    for (size_t i = at; i < at + dimensions; ++i) out.push_back(static_cast<float>(values[i] / length));
  }
  return out;
}

}  // namespace penstock::serve
