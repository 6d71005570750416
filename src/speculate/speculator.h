// Decides what each sequence proposes in the next step: from its own text, from a draft model or nothing,
// whatever gives most tokens for the time that steps of each width were measured to take. Learns from every
// draw how likely proposals are drawn, also while it proposes nothing. Engine thread; pure but for the model.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "speculate/chance.h"
#include "speculate/draft_model.h"
#include "speculate/lookup.h"
#include "speculate/sources.h"
#include "speculate/step_costs.h"

namespace penstock::speculate {

struct SpeculatorOptions {
  int32_t max_draft_tokens = 0;   // of one sequence in one step
  int32_t catch_up_tokens = 256;  // of the draft model in one step
  double cost_guess = 0.25;       // of a token more in a step, in steps of one token, until it is measured
  Use use = Use::kAuto;           // of sequences that do not say
};

/// What is remembered of one sequence from its submission to its end.
class Track {
 public:
  /// Any thread, before the engine has it.
  Track(Use use, std::span<const int32_t> prompt);
  Track() = default;

 private:
  friend class Speculator;
  bool looks_up() const { return use_ != Use::kModel; }
  bool asks_model() const { return use_ == Use::kAuto || use_ == Use::kModel; }

  Use use_ = Use::kAuto;
  Lookup lookup_;
  size_t known_ = 0;  // tokens that were noted, the prompt's too
  LookupChances chances_;
  Chance model_chance_;
  Source source_ = Source::kLookup;  // of what it proposed last
  double decoded_ = 0;               // tokens drawn
  double spent_ = 0;                 // on trials of the model, in plain steps
};

class Speculator {
 public:
  /// `model` may be null.
  Speculator(SpeculatorOptions options, std::unique_ptr<DraftModel> model);

  struct Candidate {
    Track* track = nullptr;
    DraftModel::Request request;  // its n: most that may be proposed now
  };

  /// Fills the drafts of sequences that decode.
  void propose(std::span<Candidate> candidates);

  /// Lets the draft model compute what it has not seen of those that it may help. For steps in which the
  /// target computes no prompt; what the candidates show must still be there.
  void catch_up();

  /// A step of decoding alone took `ms`: `tokens` of all its rows, drafts included.
  void note_step(int32_t tokens, double ms) { costs_.note(tokens, ms); }

  /// A sequence drew: of `n_drafts` proposals the first `accepted`. `tokens`: all of it, a stop id apart.
  void note_draws(Track& track, int32_t n_drafts, int32_t accepted, std::span<const int32_t> tokens);

  /// The sequence left its slot.
  void end(int32_t slot) {
    if (model_) model_->end(slot);
  }

  Source source(const Track& track) const { return track.source_; }
  const std::array<SourceStats, kSources>& stats() const { return stats_; }
  uint64_t model_failures() const { return model_ ? model_->failures() : 0; }

 private:
  /// Tokens and time of the step that is being put together, in tokens drawn and in steps of one token.
  struct Outlook {
    double tokens = 0, cost = 0;
    int32_t width = 0;
    double rate() const { return tokens / cost; }
  };

  void look_up(std::span<Candidate> candidates, Outlook& outlook);
  double chance(const Track& track, int32_t match_length) const;
  double model_chance(const Track& track) const;
  void ask_model(std::span<Candidate> candidates, const Outlook& outlook);
  int32_t best_model_length(double chance, int32_t room, const Outlook& outlook, double* gain) const;
  bool wants_model(Candidate& candidate, const Outlook& outlook);

  const SpeculatorOptions options_;
  const std::unique_ptr<DraftModel> model_;
  StepCosts costs_;
  LookupChances chances_;
  Chance model_chance_;
  double model_cost_ = 0.5;     // of a forward of one token in steps of the target
  double catch_up_cost_ = 0.2;  // of a token, likewise
  std::array<SourceStats, kSources> stats_;
  int32_t since_plain_ = 0;                  // steps in a row with drafts
  std::vector<DraftModel::Request> behind_;  // that asked for the model in this step and have to catch up
  std::vector<Track*> behind_tracks_;
};

}  // namespace penstock::speculate
