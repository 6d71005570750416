#include "api/ollama/fields.h"

#include <array>

namespace penstock::api::ollama {
namespace {

constexpr auto kHonoured = FieldSet::kHonoured;
constexpr auto kAccepted = FieldSet::kAccepted;
constexpr auto kRefused = FieldSet::kRefused;

constexpr std::array kGenerateFields = {
    Field{"model", kHonoured},    Field{"prompt", kHonoured},       Field{"system", kHonoured},
    Field{"context", kHonoured},  Field{"raw", kHonoured},          Field{"stream", kHonoured},
    Field{"think", kHonoured},    Field{"options", kHonoured},      Field{"keep_alive", kHonoured},
    Field{"logprobs", kHonoured}, Field{"top_logprobs", kHonoured}, Field{"format", kHonoured},
    Field{"images", kHonoured},   Field{"suffix", kHonoured},       Field{"template", kHonoured},
    Field{"truncate", kAccepted}, Field{"shift", kAccepted},        Field{"width", kRefused},
    Field{"height", kRefused},    Field{"steps", kRefused},
};

constexpr std::array kChatFields = {
    Field{"model", kHonoured},      Field{"messages", kHonoured}, Field{"tools", kHonoured},
    Field{"stream", kHonoured},     Field{"think", kHonoured},    Field{"options", kHonoured},
    Field{"keep_alive", kHonoured}, Field{"logprobs", kHonoured}, Field{"top_logprobs", kHonoured},
    Field{"format", kHonoured},     Field{"truncate", kAccepted}, Field{"shift", kAccepted},
};

constexpr std::array kOptionFields = {
    Field{"num_predict", kHonoured},
    Field{"temperature", kHonoured},
    Field{"top_k", kHonoured},
    Field{"top_p", kHonoured},
    Field{"min_p", kHonoured},
    Field{"seed", kHonoured},
    Field{"stop", kHonoured},
    Field{"repeat_penalty", kHonoured},
    Field{"repeat_last_n", kHonoured},
    Field{"presence_penalty", kHonoured},
    Field{"frequency_penalty", kHonoured},
    Field{"typical_p", kHonoured},
    Field{"tfs_z", kHonoured},
    Field{"mirostat", kHonoured},
    Field{"mirostat_tau", kAccepted},
    Field{"mirostat_eta", kAccepted},
    Field{"penalize_newline", kAccepted},
    Field{"num_ctx", kAccepted},
    Field{"num_keep", kAccepted},
    Field{"num_batch", kAccepted},
    Field{"num_gpu", kAccepted},
    Field{"main_gpu", kAccepted},
    Field{"num_thread", kAccepted},
    Field{"numa", kAccepted},
    Field{"low_vram", kAccepted},
    Field{"f16_kv", kAccepted},
    Field{"use_mmap", kAccepted},
    Field{"use_mlock", kAccepted},
    Field{"logits_all", kAccepted},
    Field{"vocab_only", kRefused},
    Field{"embedding_only", kRefused},
};

constexpr std::array kShowFields = {
    Field{"model", kHonoured},  Field{"name", kHonoured},     Field{"verbose", kAccepted},
    Field{"system", kAccepted}, Field{"template", kAccepted}, Field{"options", kAccepted},
};

constexpr std::array kPullFields = {
    Field{"model", kHonoured},    Field{"name", kHonoured},    Field{"stream", kHonoured},
    Field{"insecure", kAccepted}, Field{"username", kRefused}, Field{"password", kRefused},
};

constexpr std::array kCreateFields = {
    Field{"model", kHonoured},        Field{"name", kHonoured},
    Field{"from", kHonoured},         Field{"files", kHonoured},
    Field{"system", kHonoured},       Field{"parameters", kHonoured},
    Field{"license", kHonoured},      Field{"stream", kHonoured},
    Field{"template", kHonoured},     Field{"adapters", kHonoured},
    Field{"messages", kHonoured},     Field{"quantize", kHonoured},
    Field{"quantization", kRefused},  Field{"modelfile", kRefused, "from and files"},
    Field{"path", kRefused, "files"},
};

constexpr std::array kCopyFields = {Field{"source", kHonoured}, Field{"destination", kHonoured}};
constexpr std::array kDeleteFields = {Field{"model", kHonoured}, Field{"name", kHonoured}};

}  // namespace

std::span<const Field> generate_fields() {
  return kGenerateFields;
}
std::span<const Field> chat_fields() {
  return kChatFields;
}
std::span<const Field> option_fields() {
  return kOptionFields;
}
std::span<const Field> show_fields() {
  return kShowFields;
}
std::span<const Field> pull_fields() {
  return kPullFields;
}
std::span<const Field> create_fields() {
  return kCreateFields;
}
std::span<const Field> copy_fields() {
  return kCopyFields;
}
std::span<const Field> delete_fields() {
  return kDeleteFields;
}

}  // namespace penstock::api::ollama
