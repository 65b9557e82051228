#include "attention/kv_write_body.h"

namespace pelton {

KvWriteKernel kv_write_kernel_generic(KvDtype dtype) { return kv_write_of(dtype); }

}  // namespace pelton
