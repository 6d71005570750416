#include "pool/model_codec.h"

#include "base/error.h"

namespace penstock::pool {

std::string ModelCodec::render(const base::Json& context) const {
  if (!plain_) {
    throw base::Error(
        base::Code::kInvalidRequest,
        "[pool.render] expected a model with a chat template; got a base model: send a plain completion");
  }
  const auto tools = context.find("tools");
  const bool has_tools = tools != context.end() && tools->is_array() && !tools->empty();
  return has_tools && with_tools_ ? with_tools_->render(context) : plain_->render(context);
}

std::string_view ModelCodec::template_source() const {
  if (with_tools_) return with_tools_->source();
  return plain_ ? std::string_view(plain_->source()) : std::string_view();
}

}  // namespace penstock::pool
