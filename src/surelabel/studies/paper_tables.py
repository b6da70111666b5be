"""The numbers printed in the paper: accuracy in percent / ECE."""

from surelabel.studies.plan import Printed

TABLE_1 = """
method        cifar10-250  cifar10-2500  cifar100-400  cifar100-4000  cifar100-10000
pseudo-label     53.8/.395    81.0/.197     -             49.1/.360      66.4/.231
bam-pseudo-label -            81.5/.190     -             50.8/.342      66.4/.229
fixmatch         94.2/.051    95.7/.039     56.4/.366     74.2/.183      78.1/.147
bam-fixmatch     95.0/.045    95.7/.039     59.0/.331     74.8/.171      78.1/.139
uda              94.3/.050    95.7/.039     44.0/.491     72.9/.185      77.3/.153
bam-uda          95.3/.042    95.8/.038     59.7/.310     75.3/.167      78.3/.136
paws             90.5/.091    95.3/.046     44.5/.455     71.5/.232      75.6/.198
bam-paws         94.5/.054    95.4/.046     47.4/.372     72.5/.228      76.5/.195
paws+swa         90.9/.088    95.6/.046     45.2/.444     74.5/.193      78.4/.164
paws+ema         90.9/.087    95.8/.042     46.2/.445     73.5/.193      77.2/.168
"""  # tab:fm_main_results

TABLE_2 = """
method    imagenet-10
paws      74.4/.186
paws+swa  74.5/.186
paws+ema  75.1/.183
"""  # tab:paws_IN_results

TABLE_3 = """
method      cifar10-lt-10  cifar10-lt-100  cifar100-lt-10  cifar100-lt-100
fixmatch    91.3/.073      70.0/.26        48.8/.38        28.6/.55
bam-uda     91.6/.067      71.2/.24        53.6/.32        31.9/.50
all-labels  88.2           77.0            58.7            42.0
"""  # tab:lt_results; all labels: from another paper, with another network

TABLE_4 = """
method      phc-10     phc-1
fixmatch    78.8/.098  55.0/.385
bam-uda     81.0/.052  56.9/.356
all-labels  88.5       88.5
"""  # tab:phc_results; all labels: from its caption

TABLE_6 = """
method        cifar10-40  cifar10-250  cifar100-400  cifar100-4000
fixmatch      91.7/.078   94.2/.051    56.4/.366     74.2/.183
bam-fixmatch  93.6/.058   95.0/.044    59.0/.331     74.8/.171
fixmatch+ema  93.5/.060   94.8/.047    56.8/.350     74.0/.188
"""  # tab:fm_ema

TABLE_7 = """
method          cifar100-400  cifar100-4000
uda             44.0/.491     72.9/.185
no-sigma-0.4    48.3/.418     73.0/.184
no-sigma-0.9    54.2/.368     74.5/.170
bam-uda         59.7/.327     75.3/.167
"""  # tab:buda_sigma

TABLE_8 = """
t    cifar100-400
0.4  57.9/.344
0.8  58.1/.340
0.9  59.7/.327
1.0  59.2/.334
"""  # stab:uda_temp

TABLE_9 = """
M   cifar100-400
2   50.0/.403
5   58.1/.342
10  58.5/.336
50  59.7/.327
"""  # stab:uda_bayes_sam

TABLE_10 = """
epochs-gamma  cifar100-4000
0-0.5         72.1/.215
0-0.9         72.4/.218
0-0.99        72.0/.208
0-0.999       59.2/.266
10-0.99       72.6/.198
10-0.999      68.5/.214
50-0.99       73.2/.193
50-0.999      73.3/.200
50-0.996      73.6/.189
"""  # stab:paws_ablate_momsch


def read(table: str) -> dict[tuple[str, str], Printed]:
    """A table by (row, column), without what the paper leaves out because it did not converge."""
    heading, *lines = table.split("\n")[1:-1]
    found = {}
    for row, *cells in (line.split() for line in lines):
        for column, cell in zip(heading.split()[1:], cells, strict=True):
            if cell != "-":
                accuracy, _, ece = cell.partition("/")
                found[row, column] = Printed(float(accuracy), f"0{ece}" if ece else None)
    return found
