// What metrics of logits are made of: whether each row's target is among its largest logits, and sums over rows.
//
// A row of threads a row: a warp up to 1,024 columns, else a block. Each reads its logits once. The sums are those of one block.

// 1 for each row whose target is among the k largest logits, else 0, and 1 for each row that counts, else 0. Of equal logits, earlier ones
// rank higher; NaN ranks above all numbers, and as a target's logit it is a miss, as is a target that is none of the classes.
template <class X>
__device__ inline void row_hits(const X *__restrict__ x, const unsigned *__restrict__ targets, unsigned long long ignored, unsigned k,
                                double *__restrict__ hits, double *__restrict__ counted, unsigned long long rows, unsigned classes) {
    const unsigned long long row = row_of_threads();
    if (row >= rows) {
        return;
    }
    x += row * classes;
    const unsigned target = targets[row];
    const bool is_class = target < classes, counts = target != ignored;
    const float own = is_class ? widen(x[target]) : not_a_number();
    unsigned before = 0;
#pragma unroll 4
    for (unsigned i = threadIdx.x; i < classes; i += blockDim.x) {
        const float logit = widen(x[i]);
        before += logit != logit || logit > own || (i < target && logit >= own);
    }
    before = of_row(before, Add());
    if (threadIdx.x == 0) {
        hits[row] = counts && own == own && before < k;
        counted[row] = counts;
    }
}

extern "C" __global__ void row_hits_f32(const float *__restrict__ x, const unsigned *__restrict__ targets, unsigned long long ignored,
                                        unsigned k, double *__restrict__ hits, double *__restrict__ counted, unsigned long long rows,
                                        unsigned classes) {
    row_hits(x, targets, ignored, k, hits, counted, rows, classes);
}
extern "C" __global__ void row_hits_bf16(const bf16 *__restrict__ x, const unsigned *__restrict__ targets, unsigned long long ignored,
                                         unsigned k, double *__restrict__ hits, double *__restrict__ counted, unsigned long long rows,
                                         unsigned classes) {
    row_hits(x, targets, ignored, k, hits, counted, rows, classes);
}

// One block: the sum of all values, and of all counts.
extern "C" __global__ void sum_rows(const double *__restrict__ values, const double *__restrict__ counts, unsigned long long rows,
                                    double *__restrict__ sums) {
    double sum = 0.0, count = 0.0;
    for (unsigned long long row = threadIdx.x; row < rows; row += blockDim.x) {
        sum += values[row];
        count += counts[row];
    }
    sum = of_row(sum, Add());
    count = of_row(count, Add());
    if (threadIdx.x == 0) {
        sums[0] = sum;
        sums[1] = count;
    }
}
