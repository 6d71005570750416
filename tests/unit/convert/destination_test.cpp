// Interrupted, killed and refused conversions.
#include "convert/destination.h"

#include <csignal>

#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "convert/convert.h"
#include "unit/convert/tiny_model.h"
#include "unit/tensor/temporary_directory.h"

namespace penstock::convert {
namespace {

using tensor::DType;
using tensor::error_of;
using tensor::TemporaryDirectory;
using testing::HasSubstr;

class Conversion : public testing::Test {
 protected:
  Conversion() {
    write_model(folder_ / "dense", tiny_config({}), tiny_tensors({}, DType::kF32));
    convert(source(), folder_ / "whole", options());
    whole_ = read_folder(folder_ / "whole");
  }

  models::ModelFiles source() const { return models::open_model(folder_ / "dense"); }

  static Options options(int bits = 4) {
    Options options;
    options.wish.format = quant::Params{"affine", 64, bits};
    options.shard_bytes = 200000;
    return options;
  }

  /// Converts into `made`, interrupted after `steps` tensors; false when it came to its end before.
  bool interrupted_after(int steps) {
    std::atomic<bool> cancel = steps == 0;
    Options stopping = options();
    stopping.cancel = &cancel;
    stopping.on_progress = [&](uint64_t, uint64_t, const std::string&) { cancel = --steps <= 0; };
    const std::string error = error_of([&] { convert(source(), folder_ / "made", stopping); });
    return error.find("interrupted") != std::string::npos;
  }

  /// Runs in a child, whose exit status is given back.
  static int in_child(const std::function<int()>& work) {
    const pid_t child = ::fork();
    if (child == 0) {
      int status = 99;
      try {
        status = work();
      } catch (...) {
      }
      ::_exit(status);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

  TemporaryDirectory folder_;
  std::map<std::string, std::string> whole_;
};

TEST_F(Conversion, CutAtEveryTensorItGoesOnToTheSameBytes) {
  for (int steps = 1;; ++steps) {
    std::filesystem::remove_all(folder_ / "made");
    if (!interrupted_after(steps)) break;
    ASSERT_LT(steps, 100);
    EXPECT_FALSE(std::filesystem::exists(folder_ / "made" / "config.json"));
    EXPECT_THROW(models::open_model(folder_ / "made"), base::Error);
    EXPECT_TRUE(convert(source(), folder_ / "made", options()).resumed || steps == 1) << steps;
    EXPECT_EQ(read_folder(folder_ / "made"), whole_) << steps;
  }
}

TEST_F(Conversion, InterruptedAgainAndAgainItEnds) {
  int runs = 1;
  while (interrupted_after(2)) ASSERT_LT(++runs, 100);
  EXPECT_GT(runs, 5);
  EXPECT_EQ(read_folder(folder_ / "made"), whole_);
}

TEST_F(Conversion, KilledItGoesOn) {
  const int status = in_child([&] {
    Options dying = options();
    int steps = 0;
    dying.on_progress = [&](uint64_t, uint64_t, const std::string&) {
      if (++steps == 7) ::raise(SIGKILL);
    };
    convert(source(), folder_ / "made", dying);
    return 0;
  });
  EXPECT_EQ(status, -SIGKILL);
  EXPECT_THROW(models::open_model(folder_ / "made"), base::Error);
  convert(source(), folder_ / "made", options());
  EXPECT_EQ(read_folder(folder_ / "made"), whole_);
}

TEST_F(Conversion, KilledWhileTheFilesGetTheirNamesItGoesOn) {
  ASSERT_TRUE(interrupted_after(1));
  // As after the last mark and the first of several renames.
  std::ofstream(folder_ / "made" / "convert.incomplete", std::ios::app)
      << tiny_tensors({}, DType::kF32).size() << "\n";
  for (const auto& [name, content] : whole_) {
    if (!name.ends_with(".safetensors")) continue;
    const bool first = name.starts_with("model-00001");
    write_text(folder_ / "made" / (first ? name : name + ".incomplete"), content);
    if (first) std::filesystem::remove(folder_ / "made" / (name + ".incomplete"));
  }
  convert(source(), folder_ / "made", options());
  EXPECT_EQ(read_folder(folder_ / "made"), whole_);
}

TEST_F(Conversion, OtherOptionsAndOtherSourcesAreRefused) {
  ASSERT_TRUE(interrupted_after(3));
  EXPECT_THAT(error_of([&] { convert(source(), folder_ / "made", options(8)); }), HasSubstr("unfinished"));
  write_model(folder_ / "dense", tiny_config({}), tiny_tensors({}, DType::kF32));  // newer
  EXPECT_THAT(error_of([&] { convert(source(), folder_ / "made", options()); }), HasSubstr("unfinished"));
  Options forced = options(8);
  forced.force = true;
  convert(source(), folder_ / "made", forced);
  EXPECT_EQ(models::open_model(folder_ / "made").config["quantization"]["bits"], 8);
}

TEST_F(Conversion, AFinishedModelIsReplacedByForceAlone) {
  EXPECT_THAT(error_of([&] { convert(source(), folder_ / "whole", options()); }), HasSubstr("--force"));
  EXPECT_EQ(read_folder(folder_ / "whole"), whole_);
  Options forced = options(8);
  forced.force = true;
  forced.shard_bytes = kShardBytes;
  convert(source(), folder_ / "whole", forced);
  const auto now = read_folder(folder_ / "whole");
  EXPECT_TRUE(now.contains("model.safetensors"));
  EXPECT_FALSE(now.contains("model-00001-of-00003.safetensors"));
  EXPECT_FALSE(now.contains("model.safetensors.index.json"));
  EXPECT_EQ(models::open_model(folder_ / "whole").config["quantization"]["bits"], 8);
}

TEST_F(Conversion, OtherFoldersAreLeftAlone) {
  std::filesystem::create_directories(folder_ / "photos");
  write_text(folder_ / "photos" / "cat.jpg", "cat");
  Options forced = options();
  forced.force = true;
  EXPECT_THAT(error_of([&] { convert(source(), folder_ / "photos", forced); }), HasSubstr("other files"));
  EXPECT_THAT(error_of([&] { convert(source(), folder_ / "photos" / "cat.jpg", forced); }),
              HasSubstr("folder"));
  EXPECT_THAT(error_of([&] { convert(source(), folder_ / "dense", forced); }), HasSubstr("apart"));
  std::filesystem::create_directories(folder_ / "empty");
  convert(source(), folder_ / "empty", options());
  EXPECT_EQ(read_folder(folder_ / "empty"), whole_);
}

TEST_F(Conversion, ADestinationThatSomebodyWritesIsRefused) {
  Options outer = options();
  std::string error;
  outer.on_progress = [&](uint64_t, uint64_t, const std::string&) {
    if (error.empty()) error = error_of([&] { convert(source(), folder_ / "made", options()); });
  };
  convert(source(), folder_ / "made", outer);
  EXPECT_THAT(error, HasSubstr("another program"));
  EXPECT_EQ(read_folder(folder_ / "made"), whole_);
}

TEST_F(Conversion, AFullDiskIsAnErrorAndNothingLooksWhole) {
  const int status = in_child([&] {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit = {100000, 100000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const std::string error = error_of([&] { convert(source(), folder_ / "made", options()); });
    return error.find("goes on once there is room") != std::string::npos ? 7 : 1;
  });
  EXPECT_EQ(status, 7);
  EXPECT_THROW(models::open_model(folder_ / "made"), base::Error);
  convert(source(), folder_ / "made", options());
  EXPECT_EQ(read_folder(folder_ / "made"), whole_);
}

}  // namespace
}  // namespace penstock::convert
