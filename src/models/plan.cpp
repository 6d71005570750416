#include "models/plan.h"

#include <fmt/format.h>

namespace penstock::models {
namespace {

std::string weight(const Plan& plan, ops::WeightId id) {
  const WeightSpec& spec = plan.weights[static_cast<size_t>(id)];
  return spec.vector ? fmt::format("{}[{}]", spec.name, spec.cols)
                     : fmt::format("{}[{}, {}]", spec.name, spec.rows, spec.cols);
}

std::string linear(const Plan& plan, const ops::Linear& linear) {
  return weight(plan, linear.weight) + (linear.bias == ops::kNoWeight ? "" : " + bias");
}

std::string norm(const Plan& plan, const char* label, const ops::Norm& norm) {
  if (!norm.present()) return "";
  return fmt::format(" {}={}{}{}", label, weight(plan, norm.weight), norm.offset != 0 ? " + 1" : "",
                     norm.bias != ops::kNoWeight ? " + bias" : "");
}

const char* activation(ops::Activation activation) {
  switch (activation) {
    case ops::Activation::kSilu:
      return "silu";
    case ops::Activation::kGelu:
      return "gelu";
    case ops::Activation::kGeluTanh:
      return "gelu_tanh";
  }
  return "?";
}

const char* pooling(ops::Pooling pooling) {
  switch (pooling) {
    case ops::Pooling::kMean:
      return "mean";
    case ops::Pooling::kFirst:
      return "first";
    case ops::Pooling::kLast:
      return "last";
  }
  return "?";
}

const char* activation(ops::Dense::Activation activation) {
  switch (activation) {
    case ops::Dense::Activation::kNone:
      return "";
    case ops::Dense::Activation::kTanh:
      return " tanh";
    case ops::Dense::Activation::kSigmoid:
      return " sigmoid";
  }
  return "?";
}

struct Describe {
  const Plan& plan;

  std::string operator()(const ops::Embed& op) const {
    const auto table = [&](const char* label, ops::WeightId id) {
      return id == ops::kNoWeight ? "" : fmt::format(" {}={}", label, weight(plan, id));
    };
    return fmt::format("{} scale={}{}{}{}", weight(plan, op.table), op.scale,
                       table("positions", op.positions), table("types", op.types),
                       norm(plan, "norm", op.norm));
  }
  std::string operator()(const ops::AttnIn& op) const {
    return fmt::format("q={} k={} v={}{}{}{} rope={} kv_layer={}", linear(plan, op.q), linear(plan, op.k),
                       linear(plan, op.v), norm(plan, "norm", op.norm), norm(plan, "q_norm", op.q_norm),
                       norm(plan, "k_norm", op.k_norm), op.rope, op.kv_layer);
  }
  std::string operator()(const ops::Attend& op) const {
    return fmt::format("heads={}/{} head_dim={} scale={} window={} softcap={} kv_layer={}{}", op.q_heads,
                       op.kv_heads, op.head_dim, op.scale, op.window, op.softcap, op.kv_layer,
                       op.whole_text ? " whole text" : "");
  }
  std::string operator()(const ops::Project& op) const {
    return linear(plan, op.linear) + norm(plan, "post_norm", op.post_norm) +
           norm(plan, "out_norm", op.out_norm);
  }
  std::string operator()(const ops::Mlp& op) const {
    return fmt::format("{}up={} down={} activation={}{}{}{}",
                       op.gated() ? "gate=" + linear(plan, op.gate) + " " : "", linear(plan, op.up),
                       linear(plan, op.down), activation(op.activation), norm(plan, "norm", op.norm),
                       norm(plan, "post_norm", op.post_norm), norm(plan, "out_norm", op.out_norm));
  }
  std::string operator()(const ops::Head& op) const {
    return fmt::format("{}{} softcap={}", weight(plan, op.weight), norm(plan, "norm", op.norm), op.softcap);
  }
  std::string operator()(const ops::Pool& op) const {
    std::string out = pooling(op.pooling);
    for (const ops::Dense& dense : op.dense)
      out += " dense=" + linear(plan, dense.linear) + activation(dense.activation);
    return out + (op.unit ? " unit" : "");
  }
};

}  // namespace

std::string describe(const Plan& plan) {
  std::string out = fmt::format("family {} vocab {} hidden {} context {}\n", plan.family, plan.vocab,
                                plan.hidden, plan.max_position);
  for (const KvGroup& group : plan.kv_groups) {
    out += fmt::format("kv_group layers={} kv_heads={} head_dim={} window={}\n", group.n_layers,
                       group.kv_heads, group.head_dim, group.window);
  }
  for (const auto& operation : plan.operations) {
    out += fmt::format("{:8} {}\n", ops::name(operation), std::visit(Describe{plan}, operation));
  }
  return out;
}

}  // namespace penstock::models
