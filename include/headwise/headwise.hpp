// headwise: multi-head attention for CPUs. This header has all of the library.
#pragma once

#include <headwise/alibi.hpp>
#include <headwise/attention.hpp>
#include <headwise/cost.hpp>
#include <headwise/element.hpp>
#include <headwise/kv_cache.hpp>
#include <headwise/mask.hpp>
#include <headwise/multi_head_attention.hpp>
#include <headwise/reference.hpp>
#include <headwise/scratch.hpp>
#include <headwise/target.hpp>
#include <headwise/tensor_view.hpp>
#include <headwise/version.hpp>
#include <headwise/work.hpp>
