#include "pool/model.h"

#include <utility>

namespace penstock::pool {
namespace {

/// The ids of those control tokens that the vocabulary has.
std::vector<int32_t> ids_of(const std::vector<std::string>& tokens, const text::Codec& codec) {
  std::vector<int32_t> ids;
  for (const std::string& token : tokens) {
    const std::vector<int32_t> encoded = codec.encode(token, false);
    if (encoded.size() == 1 && codec.is_special(encoded.front())) ids.push_back(encoded.front());
  }
  return ids;
}

}  // namespace

void set_codec(Model& model, std::shared_ptr<text::Codec> codec, const std::string& tool_format,
               const std::string& reasoning_format) {
  model.output = formats::chosen(tool_format, reasoning_format, formats::detect(codec->template_source()));
  model.spelled_tokens = ids_of(model.output.spelled_tokens(), *codec);
  model.guard = std::make_shared<text::ControlGuard>(*codec);
  model.grammars = std::make_shared<grammar::Compiler>(codec, model.stop_ids);
  model.codec = std::move(codec);
}

}  // namespace penstock::pool
