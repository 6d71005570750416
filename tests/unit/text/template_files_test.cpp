#include "text/template_files.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace penstock::text {
namespace {

// CT-05
TEST(TemplateFiles, PrecedenceOfTheFiles) {
  TemplateFiles files{.chat_template_jinja = "jinja",
                      .tool_use_jinja = "",
                      .tokenizer_config_json = R"({"chat_template": "config"})",
                      .chat_template_json = R"({"chat_template": "json"})",
                      .gguf_template = "gguf"};
  EXPECT_EQ(choose_template(files)->source, "jinja");
  EXPECT_EQ(choose_template(files)->origin, "chat_template.jinja");
  files.chat_template_jinja = "";
  EXPECT_EQ(choose_template(files)->source, "config");
  files.tokenizer_config_json = R"({"eos_token": "</s>"})";
  EXPECT_EQ(choose_template(files)->source, "json");
  files.chat_template_json = R"({"chat_template": null})";
  EXPECT_EQ(choose_template(files)->source, "gguf");
  files.gguf_template = "";
  EXPECT_FALSE(choose_template(files).has_value());
}

TEST(TemplateFiles, CT_06_ANullTemplateFallsBackToTheOtherFile) {
  TemplateFiles files;
  files.tokenizer_config_json = R"({"chat_template": "config"})";
  files.chat_template_json = R"({"chat_template": null})";
  EXPECT_EQ(choose_template(files)->source, "config");
  files.tokenizer_config_json = R"({"chat_template": null})";
  files.chat_template_json = R"({"chat_template": "processor"})";
  EXPECT_EQ(choose_template(files)->source, "processor");
}

TEST(TemplateFiles, CT_21_TemplatesThatArePythonModulesAreNamed) {
  TemplateFiles files;
  files.tokenizer_config_json = R"({"chat_template_type": "deepseek_v32"})";
  try {
    choose_template(files);
    FAIL();
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::kUnsupported);
    EXPECT_NE(std::string(error.what()).find("deepseek_v32"), std::string::npos) << error.what();
  }
  files.chat_template_jinja = "jinja";
  EXPECT_EQ(choose_template(files)->source, "jinja") << "a text beside it serves";
}

TEST(TemplateFiles, ListsNameTheirTemplates) {
  TemplateFiles files;
  files.tokenizer_config_json = R"({"chat_template": [{"name": "tool_use", "template": "T"},
    {"name": "rag", "template": "R"}, {"name": "default", "template": "D"}]})";
  EXPECT_EQ(choose_template(files)->source, "D");
  EXPECT_EQ(choose_template(files)->tool_use, "T");
  files.tokenizer_config_json = R"({"chat_template": {"default": "D"}})";
  EXPECT_EQ(choose_template(files)->source, "D");
  EXPECT_EQ(choose_template(files)->tool_use, std::nullopt);
  files.tokenizer_config_json = R"({"chat_template": [{"name": "rag", "template": "R"}]})";
  EXPECT_THROW(choose_template(files), base::Error);
  files.tokenizer_config_json = R"({"chat_template": 3})";
  EXPECT_THROW(choose_template(files), base::Error);
  files.tokenizer_config_json = "{";
  EXPECT_THROW(choose_template(files), base::Error);
}

TEST(TemplateFiles, SpecialTokens) {
  const TemplateSpecials specials = template_specials(
      R"({"bos_token": null, "eos_token": {"content": "</s>", "special": true}, "pad_token": "<pad>"})");
  EXPECT_EQ(specials.bos, std::nullopt);
  EXPECT_EQ(specials.eos, "</s>");
  EXPECT_EQ(specials.pad, "<pad>");
  EXPECT_EQ(template_specials(R"({"added_tokens_decoder": {"1": {"content": "x"}}, "eos_token": "e"})").eos,
            "e");
  EXPECT_EQ(template_specials(R"({"eos_token": "e", "model_max_length": Infinity})").eos, "e");
  EXPECT_EQ(template_specials("").eos, std::nullopt);
}

}  // namespace
}  // namespace penstock::text
