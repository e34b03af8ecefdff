"""The notebook and the anchor of each theorem that the table names."""

LINKS = {
    "3.1": "03-softmax-ignores-the-key-bias.ipynb#softmax-is-shift-invariant",
    "3.3": "03b-every-head-and-a-zero-gradient.ipynb#the-key-bias-cancels-in-every-head",
    "4.2": "04-the-value-bias-leaves.ipynb#the-value-bias-passes-through-attention",
    "4.3": "04-the-value-bias-leaves.ipynb#the-value-bias-folds-into-the-output-bias",
    "4.5": "04b-the-query-bias-stays.ipynb#the-query-bias-reweights-the-keys",
    "5.1": "05-when-the-key-bias-comes-back.ipynb#a-soft-cap-keeps-r-and-loses-s",
    "5.2": "05-when-the-key-bias-comes-back.ipynb#attention-dropout-keeps-s-and-loses-r",
    "5.3": "05-when-the-key-bias-comes-back.ipynb#the-difference-of-two-softmaxes-has-both",
    "5.4": "05b-rotary-and-normalised-keys-bring-it-back.ipynb"
    "#under-rotary-positions-only-the-un-rotated-key-bias-cancels",
    "5.5": "05b-rotary-and-normalised-keys-bring-it-back.ipynb"
    "#a-key-bias-under-a-sink-moves-the-sink",
    "6.1": "06-batch-norm-erases-the-bias.ipynb#batch-norm-erases-the-bias",
    "6.3": "06b-convolutions-and-batch-norm.ipynb#a-shift-after-a-norm-moves-into-the-next-bias",
    "6.5": "06b-convolutions-and-batch-norm.ipynb#batch-norm-folds-into-the-layer-before-it",
    "6.6": "06b-convolutions-and-batch-norm.ipynb#zero-padding-stops-the-shift",
    "7.1": "07-layer-norm-erases-only-its-mean.ipynb#layer-norm-erases-the-mean-of-the-bias",
    "7.4": "07b-other-norms-other-biases.ipynb#group-norm-erases-one-constant-per-group",
    "7.5": "07b-other-norms-other-biases.ipynb#instance-norm-erases-every-bias",
    "7.6": "07b-other-norms-other-biases.ipynb#rms-norm-erases-no-bias",
    "7.8": "07c-behind-the-norm.ipynb#the-weights-behind-a-layer-norm-absorb-any-bias",
    "8.1": "08-four-placements-one-block.ipynb#the-mean-of-the-stream-is-invisible",
    "8.2": "08-four-placements-one-block.ipynb#post-norm-erases-the-mean-of-every-output-bias",
    "8.3": "08-four-placements-one-block.ipynb"
    "#a-norm-on-the-branch-erases-the-mean-of-the-bias-before-it",
    "8.4": "08b-which-constants-move.ipynb#the-shift-before-takes-the-query-bias",
    "8.5": "08b-which-constants-move.ipynb#in-post-norm-the-residual-carries-the-shift",
    "8.6": "08b-which-constants-move.ipynb#the-second-bias-moves-to-the-norm-before",
    "8.7": "08b-which-constants-move.ipynb#a-parallel-block-also-needs-its-first-bias",
    "11.2": "11-every-redundant-direction.ipynb#the-extra-key-and-value-move-along",
    "11.6": "11c-two-properties-decide.ipynb#the-fold-is-wrong-by-the-spread-of-the-row-sums",
    "11.7": "11c-two-properties-decide.ipynb#under-a-replaced-mask-the-key-bias-moves-the-mask",
    "11.8": "11d-around-the-softmax.ipynb#a-layer-norm-on-the-keys-frees-its-own-shift",
    "11.9": "11d-around-the-softmax.ipynb#efficient-attention-ignores-the-whole-key-bias",
    "11.10": "11d-around-the-softmax.ipynb#deberta-turns-the-key-bias-into-a-table-of-distances",
    "12.1": "12-norms-and-constants.ipynb#token-and-position-tables-share-a-constant",
    "12.2": "12-norms-and-constants.ipynb#a-constant-row-of-the-head-is-invisible-to-probabilities",
    "14.1": "14-the-bias-folded-away.ipynb"
    "#under-a-sink-the-fold-is-too-large-by-the-sink-s-weight",
}
