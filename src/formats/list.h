// All formats, in the order in which a template is asked for them: the special before the general.
#pragma once

#include <array>

#include "formats/reasoning_format.h"
#include "formats/tool_format.h"

namespace penstock::formats {

extern const ToolFormat kApertus, kCohere, kCommandR, kDeepSeekV3, kDeepSeekV31, kDsml, kFunctionGemma,
    kFunctionTag, kFunctionary, kFunctionaryV2, kFunctools, kGemma, kGigaChat, kGlm, kGranite, kHarmony,
    kHermes, kHunyuan, kKimi, kKimiK3, kLfm, kLlama, kLongcat, kMiniCpm, kMiniMax, kMiniMaxM3, kMistral,
    kMistralOld, kMuse, kNemotron, kPythonic, kQwenCoder, kSeed, kSolar, kText, kToolCalls, kXlam;

extern const MessageShape kHarmonyMessages, kMuseMessages;

inline const std::array kToolFormats = {
    &kHarmony,       &kKimi,          &kKimiK3,      &kSolar,     &kDsml,        &kDeepSeekV3, &kDeepSeekV31,
    &kMuse,          &kSeed,          &kLongcat,     &kMiniMax,   &kMiniMaxM3,   &kHunyuan,    &kGemma,
    &kFunctionGemma, &kGranite,       &kApertus,     &kCohere,    &kCommandR,    &kLfm,        &kMistral,
    &kMistralOld,    &kFunctionaryV2, &kFunctionary, &kNemotron,  &kGigaChat,    &kMiniCpm,    &kGlm,
    &kQwenCoder,     &kToolCalls,     &kHermes,      &kFunctools, &kFunctionTag, &kLlama,      &kXlam,
    &kPythonic,      &kText,
};

/// In reasoning.cpp.
const std::vector<ReasoningFormat>& reasoning_formats();

}  // namespace penstock::formats
