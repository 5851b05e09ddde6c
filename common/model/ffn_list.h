/* ffn_list.h - The kinds of feed-forwards, a line each:
 *
 *     FFN(KIND, row)
 *
 *     KIND  FFN_KIND of enum ffn_kind; a model's fingerprint has its number,
 *           so lines are only appended
 *     row   ffn_row (common/model/ffn.h) and cpu_ffn_row (kernels/cpu/mixer.h)
 *           describe the kind; they do not link without
 *
 * Included several times, by whoever defines FFN. */
FFN(DENSE, dense)
FFN(EXPERTS, experts)
