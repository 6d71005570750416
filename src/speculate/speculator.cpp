#include "speculate/speculator.h"

#include <algorithm>

namespace penstock::speculate {
namespace {

constexpr double kWorthIt = 1.03;     // times the rate without: less is noise
constexpr double kTrialShare = 0.02;  // of a sequence's decoding that may go into finding out about the model
constexpr double kModelGuess = 0.6;   // that what the model proposes is drawn, before it proposed
constexpr double kModelShareOfOwn = 8;  // tries of all that weigh as much as those of one sequence
constexpr double kGuessWeight = 10;
constexpr double kOwnWeight = 4;
constexpr double kSeldom = 0.35;  // a model that is right less often is not asked
constexpr double kShareOfCost = 0.2;
constexpr int32_t kReference = 32;   // steps with drafts, then a plain one to compare them with
constexpr int32_t kFirstTries = 16;  // of the model alone, before it is judged
constexpr int32_t kTrialLength = 2;
constexpr int32_t kLeastToCome = 32;  // tokens that a sequence is expected to draw still, at least

void mix(double& old, double now) {
  old += kShareOfCost * (std::min(now, 3 * old) - old);
}

}  // namespace

Track::Track(Use use, std::span<const int32_t> prompt)
    : use_(use), lookup_(use == Use::kNgram ? Lookup::kNgram : Lookup::kSuffix), known_(prompt.size()) {
  if (looks_up()) lookup_.add(prompt);
}

Speculator::Speculator(SpeculatorOptions options, std::unique_ptr<DraftModel> model)
    : options_(options), model_(std::move(model)), costs_(options.cost_guess) {
  if (!model_) return;
  model_cost_ = model_->options().relative_cost;
  catch_up_cost_ = model_cost_ * 0.3;
}

double Speculator::chance(const Track& track, int32_t match_length) const {
  const double of_all = chances_.at(match_length).of(LookupChances::first_guess(match_length), kGuessWeight);
  return track.chances_.at(match_length).of(of_all, kOwnWeight);
}

double Speculator::model_chance(const Track& track) const {
  return track.model_chance_.of(model_chance_.of(kModelGuess, kGuessWeight), kModelShareOfOwn);
}

void Speculator::propose(std::span<Candidate> candidates) {
  behind_.clear();
  behind_tracks_.clear();
  for (Candidate& c : candidates) {
    c.request.drafts->clear();
    c.request.n = std::min(c.request.n, options_.max_draft_tokens);
    c.track->source_ = Source::kLookup;
  }
  if (costs_.ms() == 0 || candidates.empty()) return;  // first what a plain step takes
  if (++since_plain_ > kReference) {                   // and from time to time what it takes now
    since_plain_ = 0;
    return;
  }
  const auto width = static_cast<int32_t>(candidates.size());
  Outlook outlook{static_cast<double>(width), costs_.of(width), width};
  look_up(candidates, outlook);
  if (model_ && !model_->is_off()) ask_model(candidates, outlook);
  const auto is_plain = [](const Candidate& c) { return c.request.drafts->empty(); };
  if (std::ranges::all_of(candidates, is_plain)) since_plain_ = 0;
}

/// Adds the likeliest proposal of all sequences, then the next one, and takes as many as give the best rate.
void Speculator::look_up(std::span<Candidate> candidates, Outlook& outlook) {
  struct Proposal {
    double chance;
    size_t candidate;
  };
  std::vector<Proposal> proposals;
  for (size_t i = 0; i < candidates.size(); ++i) {
    const auto& match = candidates[i].track->lookup_.match();
    double all = 1;
    for (int32_t j = 0; match && j < candidates[i].request.n; ++j) {
      all *= chance(*candidates[i].track, match->length + j);
      proposals.push_back({all, i});
    }
  }
  // Those of one sequence stay in order, since each is at most as likely as the one before.
  std::ranges::stable_sort(proposals, std::greater<>(), &Proposal::chance);
  Outlook best = outlook, sum = outlook;
  size_t n_best = 0;
  for (size_t n = 0; n < proposals.size(); ++n) {
    sum.tokens += proposals[n].chance;
    sum.cost = costs_.of(++sum.width);
    if (sum.rate() <= best.rate()) continue;
    best = sum;
    n_best = n + 1;
  }
  if (best.rate() < outlook.rate() * kWorthIt) return;
  std::vector<int32_t> lengths(candidates.size());
  for (size_t n = 0; n < n_best; ++n) ++lengths[proposals[n].candidate];
  for (size_t i = 0; i < candidates.size(); ++i)
    *candidates[i].request.drafts = candidates[i].track->lookup_.propose(lengths[i]);
  outlook = best;
}

/// How many tokens of the model a sequence best adds to the step, and by what the rate grows.
int32_t Speculator::best_model_length(double chance, int32_t room, const Outlook& outlook,
                                      double* gain) const {
  Outlook sum = outlook;
  double best = outlook.rate(), all = 1;
  int32_t length = 0;
  for (int32_t k = 1; k <= room; ++k) {
    all *= chance;
    sum.tokens += all;
    sum.cost += costs_.of(sum.width + 1) - costs_.of(sum.width) + model_cost_;
    ++sum.width;
    if (sum.rate() <= best) continue;
    best = sum.rate();
    length = k;
  }
  *gain = best / outlook.rate();
  return length;
}

/// Sets how many tokens it asks for. False too for one that has to catch up first.
bool Speculator::wants_model(Candidate& candidate, const Outlook& outlook) {
  Track& track = *candidate.track;
  DraftModel::Request& request = candidate.request;
  if (!track.asks_model() || !request.drafts->empty() || request.n < 1) return false;
  if (!model_->can(request.id, request.slot, request.tokens.size())) return false;
  const bool alone = track.use_ == Use::kModel;
  const int32_t unseen = model_->unseen(request.id, request.slot, request.tokens);
  const bool is_behind = unseen > DraftModel::kFewTokens;
  const double catch_up = unseen > 2 ? unseen * catch_up_cost_ : 0;
  const double likely = model_chance(track);
  double gain = 1;
  const int32_t length = likely < kSeldom ? 0 : best_model_length(likely, request.n, outlook, &gain);
  const double to_come = std::max<double>(kLeastToCome, track.decoded_);
  const bool pays = gain >= kWorthIt && (alone || catch_up < (gain - 1) / gain * to_come);
  // Otherwise a trial, from time to time.
  const double trial = catch_up + model_cost_ + costs_.of(outlook.width + 1) - costs_.of(outlook.width);
  const bool tries = (alone && track.model_chance_.tries < kFirstTries) ||
                     track.spent_ + trial <= kTrialShare * track.decoded_;
  if (!pays && !tries) return false;
  request.n = std::min(request.n, pays ? length : kTrialLength);
  if (is_behind) {
    behind_.push_back(request);
    behind_tracks_.push_back(&track);
    return false;
  }
  if (!pays) track.spent_ += trial;
  return true;
}

void Speculator::ask_model(std::span<Candidate> candidates, const Outlook& outlook) {
  std::vector<DraftModel::Request> requests;
  std::vector<Track*> tracks;
  for (Candidate& c : candidates) {
    if (!wants_model(c, outlook)) continue;
    requests.push_back(c.request);
    tracks.push_back(c.track);
  }
  if (requests.empty()) return;
  const DraftModel::Work work = model_->propose(requests);
  for (size_t i = 0; i < requests.size(); ++i)
    if (!requests[i].drafts->empty()) tracks[i]->source_ = Source::kModel;
  if (work.forwards == 0) return;
  const double forward_cost = costs_.of(work.fed / work.forwards);
  mix(model_cost_, work.ms / costs_.ms() / work.forwards / forward_cost);
}

void Speculator::catch_up() {
  if (behind_.empty()) return;
  const DraftModel::Work work = model_->catch_up(behind_, options_.catch_up_tokens);
  if (work.fed > 0) mix(catch_up_cost_, work.ms / costs_.ms() / work.fed);
  for (Track* track : behind_tracks_)
    track->spent_ += work.fed * catch_up_cost_ / static_cast<double>(behind_tracks_.size());
  behind_.clear();
  behind_tracks_.clear();
}

void Speculator::note_draws(Track& track, int32_t n_drafts, int32_t accepted,
                            std::span<const int32_t> tokens) {
  const auto drawn = tokens.subspan(track.known_);
  track.known_ = tokens.size();
  track.decoded_ += static_cast<double>(drawn.size());
  if (track.looks_up()) {
    for (const int32_t token : drawn) {
      if (const auto& match = track.lookup_.match()) {
        const int32_t hit = track.lookup_.next() == token ? 1 : 0;
        track.chances_.at(match->length).note(1, hit);
        chances_.at(match->length).note(1, hit);
      }
      track.lookup_.add(token);
    }
  }
  if (n_drafts == 0) return;
  if (track.source_ == Source::kModel) {
    const int32_t tried = std::min(n_drafts, accepted + 1);
    track.model_chance_.note(tried, accepted);
    model_chance_.note(tried, accepted);
  }
  SourceStats& stats = stats_[static_cast<size_t>(track.source_)];
  stats.drafted += static_cast<uint64_t>(n_drafts);
  stats.accepted += static_cast<uint64_t>(accepted);
  ++stats.steps[std::min(static_cast<size_t>(accepted), SourceStats::kMostTokens)];
}

}  // namespace penstock::speculate
