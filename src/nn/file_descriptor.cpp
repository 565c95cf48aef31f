#include "sluice/nn/file_descriptor.hpp"

#include <unistd.h>

namespace sluice::nn {

// An error of close() has nobody to go to and changes nothing: the descriptor is gone either way, and what must
// be safe on the disk was synchronised before.
void file_descriptor::closer::operator()(handle descriptor) const noexcept { ::close(descriptor.value); }

}  // namespace sluice::nn
