// Names, entries and uploads; what the library does with models is tested over a socket (tests/e2e).
#include <condition_variable>
#include <fstream>
#include <future>
#include <iterator>

#include <gtest/gtest.h>

#include "base/digest.h"
#include "base/error.h"
#include "library/blobs.h"
#include "library/entry.h"
#include "library/names.h"
#include "unit/store/scratch_folder.h"

namespace penstock::library {
namespace {

namespace fs = std::filesystem;

TEST(Names, of_models_are_no_paths) {
  for (const char* good :
       {"a", "smollm2", "org/name", "host/org/name", "a:b", "org/name:Q4_K_M", "a-b_c.d:1.5b"})
    EXPECT_TRUE(is_model_name(good)) << good;
  for (const char* bad : {"", "/a", "a/", "a//b", "a/b/c/d", "../a", "a/..", ".hidden", "a:", ":b", "a:b:c",
                          "a:b/c", "a b", "a\\b", "~/a", "a@b", "a:../b", "\xc3\xa9"})
    EXPECT_FALSE(is_model_name(bad)) << bad;
  EXPECT_FALSE(is_model_name(std::string(81, 'a')));
}

TEST(Names, OL_15_latest_says_nothing) {
  EXPECT_EQ(without_latest("a:latest"), "a");
  EXPECT_EQ(without_latest("a:b"), "a:b");
  EXPECT_EQ(with_tag("org/a"), "org/a:latest");
  EXPECT_EQ(with_tag("host:80/a"), "host:80/a:latest");
  EXPECT_EQ(with_tag("a:b"), "a:b");
}

class LibraryTest : public store::ScratchFolder {};

TEST_F(LibraryTest, entries_come_back_as_they_were) {
  Entry entry{"org/x:v1",
              "base",
              "smollm2",
              {{"model.gguf", std::string(64, 'a')}},
              {"be brief", {{"top_k", 5}}, {"MIT"}},
              42};
  write_entry(root_ / "models", entry);
  entry.preset.system = "be briefer";
  write_entry(root_ / "models", entry);
  write_entry(root_ / "models", {"y", "", "", {}, {}, 1});
  std::ofstream(root_ / "models" / "broken.json") << "{";
  std::ofstream(root_ / "models" / "other.txt") << "no entry";
  std::vector<Entry> entries = read_entries(root_ / "models");
  ASSERT_EQ(entries.size(), 2u);
  if (entries[0].name == "y") std::swap(entries[0], entries[1]);
  const Entry& got = entries[0];
  EXPECT_EQ(got.name, "org/x:v1");
  EXPECT_EQ(got.base, "base");
  EXPECT_EQ(got.stored, "smollm2");
  EXPECT_EQ(got.files.at(0).name + got.files.at(0).sha256, "model.gguf" + std::string(64, 'a'));
  EXPECT_EQ(got.preset.system, "be briefer");
  EXPECT_EQ(got.preset.parameters.dump(), R"({"top_k":5})");
  EXPECT_EQ(got.preset.licences, std::vector<std::string>{"MIT"});
  EXPECT_EQ(got.created_ms, 42);
  remove_entry(root_ / "models", "org/x:v1");
  EXPECT_EQ(read_entries(root_ / "models").size(), 1u);
}

struct Uploads {
  explicit Uploads(const fs::path& root) : folder(root / "blobs"), blobs(folder, workers) {}

  std::exception_ptr finish(const std::shared_ptr<Blobs::Upload>& upload) {
    std::promise<std::exception_ptr> done;
    upload->finish([&](std::exception_ptr why) { done.set_value(std::move(why)); });
    return done.get_future().get();
  }
  size_t n_files() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator{}));
  }

  const fs::path folder;
  serve::Workers workers{1, 16};
  Blobs blobs;
};

TEST_F(LibraryTest, an_upload_is_there_when_it_is_whole) {
  Uploads f(root_);
  const std::string sha256 = base::sha256("hello upload");
  const auto upload = f.blobs.receive(sha256, 12, [] {});
  upload->write("hello ");
  EXPECT_FALSE(f.blobs.has(sha256));
  upload->write("upload");
  EXPECT_EQ(f.finish(upload), nullptr);
  EXPECT_TRUE(f.blobs.has(sha256));
  std::ifstream in(f.blobs.path(sha256), std::ios::binary);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), "hello upload");
}

TEST_F(LibraryTest, other_bytes_than_announced_leave_nothing) {
  Uploads f(root_);
  auto upload = f.blobs.receive(base::sha256("this"), 4, [] {});
  upload->write("that");
  try {
    std::rethrow_exception(f.finish(upload));
    FAIL();
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::kInvalidRequest);
    EXPECT_EQ(error.param(), "digest");
  }
  upload.reset();
  f.workers.stop();
  EXPECT_EQ(f.n_files(), 0u);
}

TEST_F(LibraryTest, one_that_breaks_off_leaves_nothing) {
  Uploads f(root_);
  auto upload = f.blobs.receive(base::sha256("this"), 4, [] {});
  upload->write("th");
  upload.reset();
  f.workers.stop();
  EXPECT_EQ(f.n_files(), 0u);
}

TEST_F(LibraryTest, a_full_upload_says_when_it_takes_more) {
  Uploads f(root_);
  std::promise<void> open;
  f.workers.post([gate = open.get_future().share()] { gate.wait(); });  // the disk is slow
  std::promise<void> woken;
  const std::string piece(3 << 20, 'x');
  const auto upload = f.blobs.receive(base::sha256(piece + piece), 0, [&] { woken.set_value(); });
  EXPECT_TRUE(upload->is_ready());
  upload->write(piece);
  EXPECT_TRUE(upload->is_ready());
  upload->write(piece);
  EXPECT_FALSE(upload->is_ready());
  open.set_value();
  woken.get_future().get();
  EXPECT_TRUE(upload->is_ready());
  EXPECT_EQ(f.finish(upload), nullptr);
}

TEST_F(LibraryTest, unused_uploads_go_and_linked_ones_stay) {
  Uploads f(root_);
  for (const char* text : {"one", "two"}) {
    const auto upload = f.blobs.receive(base::sha256(text), 0, [] {});
    upload->write(text);
    EXPECT_EQ(f.finish(upload), nullptr);
  }
  const std::string one = base::sha256("one"), two = base::sha256("two");
  fs::create_hard_link(f.blobs.path(one), root_ / "model.gguf");
  f.blobs.remove_if_unused(one);
  f.blobs.remove_if_unused(two);
  EXPECT_TRUE(f.blobs.has(one));
  EXPECT_FALSE(f.blobs.has(two));
  std::ofstream(f.folder / "upload-9.partial") << "x";
  fs::last_write_time(f.blobs.path(one), fs::file_time_type::clock::now() - std::chrono::hours(48));
  f.blobs.remove_leftovers();
  EXPECT_TRUE(f.blobs.has(one));
  fs::remove(root_ / "model.gguf");
  f.blobs.remove_leftovers();
  EXPECT_EQ(f.n_files(), 0u);
}

TEST(Blobs, digests_are_sha256) {
  const std::string hex(64, 'b');
  EXPECT_EQ(Blobs::digest_of("sha256:" + hex), hex);
  EXPECT_EQ(Blobs::digest_of("sha256-" + hex), hex);
  for (const std::string& bad :
       {hex, "sha256:" + hex + "b", "md5:" + hex, std::string("sha256:../../etc/passwd")})
    EXPECT_THROW(Blobs::digest_of(bad), base::Error) << bad;
}

}  // namespace
}  // namespace penstock::library
