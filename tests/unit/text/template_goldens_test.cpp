// Real chat templates against what transformers renders (tools/make_template_goldens.py). The templates are
// third-party files that tools/fetch_test_data.py fetches; the hashes are committed.
#include <map>

#include <gtest/gtest.h>

#include "base/error.h"
#include "golden_files.h"
#include "text/chat_template.h"

namespace penstock::text {
namespace {

using base::Json;
using testing::data_dir;
using testing::read_json;

// "error" and nothing more in the golden file is a failure of Python's that has no words of the template.
std::string outcome_of(const ChatTemplate& chat_template, const Json& context, int64_t now_s,
                       const std::string& want) {
  try {
    return testing::golden_hash(chat_template.render(context, now_s));
  } catch (const base::Error& error) {
    return want == "error" ? "error" : "error: " + std::string(error.text());
  }
}

struct Counts {
  int equal = 0;
  int excepted = 0;
};

// Compares one template over all conversations. An exception that no longer differs is a failure too.
void compare(const std::string& name, const Json& row, const Json& goldens, const Json& exceptions,
             Counts& counts) {
  const Json conversations = read_json(data_dir() / "template_conversations.json");
  const std::string source =
      testing::read_file(testing::fetched_models_dir() / "templates" / (name + ".jinja"));
  ASSERT_FALSE(source.empty()) << name;
  TemplateSpecials specials;
  specials.bos = goldens["specials"]["bos_token"].get<std::string>();
  specials.eos = goldens["specials"]["eos_token"].get<std::string>();
  specials.unk = goldens["specials"]["unk_token"].get<std::string>();
  specials.pad = goldens["specials"]["pad_token"].get<std::string>();
  const ChatTemplate chat_template(source, specials);
  size_t at = 0;
  for (const auto& [conversation, context] : conversations.items()) {
    const std::string want = row.at(at++).get<std::string>();
    const std::string got = outcome_of(chat_template, context, goldens["now"].get<int64_t>(), want);
    const bool excepted = exceptions.contains(name) && exceptions[name].contains(conversation);
    EXPECT_EQ(got == want, !excepted)
        << name << " with " << conversation << ": want " << want << ", got " << got;
    ++(excepted ? counts.excepted : counts.equal);
  }
}

TEST(TemplateGoldens, EqualTransformers) {
  const Json goldens = read_json(data_dir() / "template_goldens.json");
  const Json exceptions = read_json(data_dir() / "template_exceptions.json");
  const size_t cases = goldens["templates"].size() * goldens["conversations"].size();
  if (!std::filesystem::is_directory(testing::fetched_models_dir() / "templates")) {
    GTEST_SKIP() << cases << " cases skipped: run tools/fetch_test_data.py";
  }
  Counts counts;
  for (const auto& [name, row] : goldens["templates"].items())
    compare(name, row, goldens, exceptions, counts);
  EXPECT_EQ(static_cast<size_t>(counts.equal + counts.excepted), cases);
  std::printf("%d equal, %d exceptions\n", counts.equal, counts.excepted);
}

}  // namespace
}  // namespace penstock::text
