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

const std::string& ModelCodec::template_source() const {
  static const std::string kNone;
  return plain_ ? plain_->source() : kNone;
}

}  // namespace penstock::pool
