// SPDX-License-Identifier: Apache-2.0
// million: the large count in tests of depth and cost. Under a sanitizer, where each access is slower, it is a hundred
// thousand.
#pragma once

namespace sluice::test_support {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
inline constexpr int million = 100'000;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
inline constexpr int million = 100'000;
#else
inline constexpr int million = 1'000'000;
#endif
#else
inline constexpr int million = 1'000'000;
#endif

}  // namespace sluice::test_support
