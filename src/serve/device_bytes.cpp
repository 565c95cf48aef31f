// SPDX-License-Identifier: Apache-2.0
#include "serve/device_bytes.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "sluice/runtime/adopt.hpp"
#include "sluice/runtime/sync.hpp"
#include "sluice/runtime/transfer_region.hpp"

namespace sluice::serve {
namespace {

region part(std::uint64_t offset, std::size_t bytes) { return {.at = {offset}, .shape = {bytes}}; }

}  // namespace

device_bytes::device_bytes(device& on, tensor<std::byte> whole)
    : on_(on), whole_(std::make_shared<tensor<std::byte>>(std::move(whole))), stream_(on) {}

void device_bytes::read(std::uint64_t offset, std::span<std::byte> to) const {
    const std::byte* const data = whole_->device_data();
    auto copy = download_region(adopt(on_, data, whole_->shape(), whole_), part(offset, to.size()));
    const std::vector<std::byte> got = sync(std::move(copy), stream_);
    std::ranges::copy(got, to.begin());
}

void device_bytes::write(std::uint64_t offset, std::span<const std::byte> from) const {
    auto copy =
        upload_to(adopt(on_, whole_->device_data(), whole_->shape(), whole_), part(offset, from.size()), from, nullptr);
    static_cast<void>(sync(std::move(copy), stream_));
}

}  // namespace sluice::serve
