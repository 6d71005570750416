#include "models/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "base/error.h"
#include "models/config_reader.h"

namespace penstock::models {
namespace {

using base::Code;
using base::Error;
using base::Json;

std::vector<double> plain_frequencies(const RopeContext& context, double theta) {
  std::vector<double> inverse;
  for (int32_t i = 0; i < context.dims; i += 2) {
    inverse.push_back(1 / std::pow(theta, static_cast<double>(i) / context.dims));
  }
  return inverse;
}

/// Llama 3.1: long wavelengths are divided by the factor, short ones kept, those between are blended.
void scale_llama3(ConfigReader& reader, std::vector<double>& inverse) {
  const double factor = reader.number("factor"), low = reader.number("low_freq_factor");
  const double high = reader.number("high_freq_factor");
  const double original = reader.number("original_max_position_embeddings");
  for (double& f : inverse) {
    const double wavelength = 2 * std::numbers::pi / f;
    if (wavelength > original / low) {
      f /= factor;
    } else if (wavelength >= original / high) {
      const double smooth = (original / wavelength - low) / (high - low);
      f = (1 - smooth) * f / factor + smooth * f;
    }
  }
}

double yarn_magnitude(double factor, double mscale) {
  return factor <= 1 ? 1 : 0.1 * mscale * std::log(factor) + 1;
}

/// YaRN (Peng et al. 2023, arXiv 2309.00071): blends interpolated and plain frequencies by how often a
/// dimension turns within the original context. Returns the factor on q and k.
double scale_yarn(ConfigReader& reader, const RopeContext& context, double theta,
                  std::vector<double>& inverse) {
  const double factor = reader.number("factor");
  const double original = reader.number_or("original_max_position_embeddings", context.max_position);
  const auto dim_of_turns = [&](double turns) {
    return context.dims * std::log(original / (turns * 2 * std::numbers::pi)) / (2 * std::log(theta));
  };
  double low = dim_of_turns(reader.number_or("beta_fast", 32));
  double high = dim_of_turns(reader.number_or("beta_slow", 1));
  if (reader.flag_or("truncate", true)) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, context.dims - 1.0);
  if (low == high) high += 0.001;
  for (size_t i = 0; i < inverse.size(); ++i) {
    const double interpolated = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    inverse[i] = inverse[i] / factor * interpolated + inverse[i] * (1 - interpolated);
  }
  const double mscale = reader.number_or("mscale", 0), mscale_all = reader.number_or("mscale_all_dim", 0);
  if (reader.find("attention_factor") != nullptr) return reader.number("attention_factor");
  if (mscale != 0 && mscale_all != 0)
    return yarn_magnitude(factor, mscale) / yarn_magnitude(factor, mscale_all);
  return yarn_magnitude(factor, 1);
}

}  // namespace

ops::Rope make_rope(const Json& parameters, const RopeContext& context) {
  if (!parameters.is_null() && !parameters.is_object()) {
    throw Error(Code::kInvalidRequest,
                "[models.rope] expected an object of rope parameters; got " + parameters.dump());
  }
  const Json given = parameters.is_null() ? Json::object() : parameters;
  ConfigReader reader(given);
  const double theta = reader.number_or("rope_theta", context.theta);
  reader.find("partial_rotary_factor");  // already in context.dims
  // Both keys may stand together; "type" is the older spelling.
  const std::string old_type = reader.text_or("type", "default");
  const std::string type = reader.text_or("rope_type", old_type);
  ops::Rope rope;
  rope.dims = context.dims;
  std::vector<double> inverse = plain_frequencies(context, theta);
  if (type == "linear") {
    const double factor = reader.number("factor");
    for (double& f : inverse) f /= factor;
  } else if (type == "llama3") {
    scale_llama3(reader, inverse);
  } else if (type == "yarn") {
    rope.magnitude = static_cast<float>(scale_yarn(reader, context, theta, inverse));
  } else if (type != "default") {
    throw Error(Code::kUnsupported,
                "[models.rope] expected rope type default, linear, llama3 or yarn; got " + type);
  }
  if (type == "default") reader.find("mrope_section");  // of positions in pictures; text has one position
  const auto unknown = reader.finish();
  if (!unknown.empty()) {
    throw Error(Code::kUnsupported, "[models.rope] expected parameters of rope type " + type +
                                        "; got the unknown " + unknown.front());
  }
  rope.inv_freq.assign(inverse.begin(), inverse.end());
  return rope;
}

}  // namespace penstock::models
