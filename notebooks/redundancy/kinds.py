"""What each operation that PyTorch records for gradients does: one table.

    moves        hands numbers on, each to its place, and does not change them
    part         after it only a part of what went in is there
    still        leaves the axes of the scores as they are
    linear       is linear in each thing that it reads
    weighs       is a product of queries and keys, or of weights and values
    normalises   makes the weights of keys
    norm         is a step of LayerNorm, RMSNorm or a norm of heads
    length       measures a whole vector: its mean, its length; every norm has one
    rewrites     puts other numbers in the place of some, or takes some of them twice
    alike        a number added to every entry is still added to every entry after it
    sees         does see such a number

The names are those of `torch.autograd`'s nodes, without Backward and its number.
"""

TABLE = """
AccumulateGrad         moves
AdaptiveAvgPool2D      alike
Add                    linear norm
Addmm                  linear
Alias                  moves still
Amax                   alike
AsStrided              moves
AvgPool2D              alike
AvgPool3D              alike
Baddbmm                linear weighs sees
Bmm                    linear weighs sees
Cat                    moves
Clamp                  norm
ClampMin               norm
Clone                  moves still
Complex                linear
Conj                   linear
ConstantPadNd          moves sees
Contiguous             still
Convolution            linear sees
Copy                   moves still
Diagonal               moves
Div                    linear norm
Dot                    linear
Elu                    sees
Expand                 moves still
Flip                   moves
FusedRmsNorm           norm length sees
Gather                 moves rewrites
Gelu                   sees
Im2Col                 moves
Imag                   linear
Index                  moves part
IndexAdd               moves rewrites
IndexPut               moves rewrites
IndexSelect            moves part
LeakyRelu              sees
LinalgVectorNorm       norm length sees
MaskedFill             linear rewrites sees
Max                    alike
MaxPool2DWithIndices   alike
Mean                   linear norm alike length
Mm                     linear sees
Movedim                moves
Mul                    linear norm
Mv                     linear
Narrow                 moves part
NativeLayerNorm        norm length
Neg                    linear
Norm                   norm length sees
Permute                moves
Pow                    norm sees
Real                   linear
Reciprocal             norm
Relu                   sees
Repeat                 moves
ReshapeAlias           moves
Roll                   moves
Rsqrt                  norm
Rsub                   linear
SafeSoftmax            normalises
Select                 moves still part
Sigmoid                normalises sees
Silu                   sees
Slice                  moves still part
SliceScatter           moves rewrites
Softmax                normalises
SoftmaxOne             normalises
Softplus               sees
Split                  moves part
SplitWithSizes         moves part
Sqrt                   norm
Square                 norm sees
Squeeze                moves
Stack                  moves
Sub                    linear norm
Sum                    linear length sees
T                      moves
Tanh                   sees
ToCopy                 moves still
Transpose              moves
Unbind                 moves part
Unfold                 moves
UnsafeView             moves
Unsqueeze              moves
Var                    norm length
View                   moves
ViewAsComplex          moves
ViewAsReal             moves
Where                  linear rewrites sees
"""


class Unknown(Exception):
    """An operation stands where no theorem of the book speaks of it; says which."""


class Lost(Exception):
    """S or R is lost, and the sentence says why: nothing is redundant."""


KINDS = {name: set(kinds) for name, *kinds in map(str.split, TABLE.strip().splitlines())}


def of_kind(kind):
    """The names of the operations of a kind."""
    return frozenset(name for name, kinds in KINDS.items() if kind in kinds)


MOVES, PARTS, STILL = of_kind("moves"), of_kind("part"), of_kind("still")
LINEAR, WEIGHED, NORMALISERS = of_kind("linear"), of_kind("weighs"), of_kind("normalises")
NORM_STEPS, ALIKE, SEE = of_kind("norm"), of_kind("alike"), of_kind("sees")
LENGTHS, REWRITES = of_kind("length"), of_kind("rewrites")
