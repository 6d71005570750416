#include "text/chat_template.h"

#include <ctime>

#include "base/error.h"
#include "text/textkit_call.h"

namespace penstock::text {
namespace {

// What the local clock shows, as seconds since 1970.
int64_t local_clock_s() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  return static_cast<int64_t>(now) + local.tm_gmtoff;
}

base::Json specials_json(const TemplateSpecials& specials) {
  base::Json json = base::Json::object();
  const auto add = [&](const char* name, const std::optional<std::string>& token) {
    if (token) json[name] = *token;
  };
  add("bos_token", specials.bos);
  add("eos_token", specials.eos);
  add("unk_token", specials.unk);
  add("pad_token", specials.pad);
  return json;
}

}  // namespace

struct ChatTemplate::Handle {
  explicit Handle(std::string_view source) {
    check(textkit_template_compile(view_of(source), &raw), "text.template");
  }
  ~Handle() { textkit_template_free(raw); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  TextkitTemplate* raw = nullptr;
};

ChatTemplate::ChatTemplate(std::string source, TemplateSpecials specials)
    : source_(std::move(source)),
      specials_(specials_json(specials)),
      handle_(std::make_unique<Handle>(std::string_view(source_))) {}
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

std::string ChatTemplate::render(const base::Json& context, std::optional<int64_t> local_time_s) const {
  base::Json variables = specials_;
  for (const auto& [name, value] : context.items()) {
    if (name != "chat_template_kwargs") variables[name] = value;
  }
  if (const auto extra = context.find("chat_template_kwargs"); extra != context.end() && extra->is_object()) {
    for (const auto& [name, value] : extra->items()) variables[name] = value;
  }
  const std::string json = variables.dump(-1, ' ', false, base::Json::error_handler_t::replace);
  std::string text(2 * json.size() + 4096, '\0');
  size_t size = 0;
  const int64_t now_s = local_time_s ? *local_time_s : local_clock_s();
  const auto run = [&] {
    return textkit_template_render(handle_->raw, view_of(json), now_s,
                                   reinterpret_cast<uint8_t*>(text.data()), text.size(), &size);
  };
  int32_t status = run();
  if (status == TEXTKIT_TOO_SMALL) {
    text.resize(size);
    status = run();
  }
  check(status, "text.render");
  text.resize(size);
  return text;
}

}  // namespace penstock::text
