"""Molecules from CSV files: what is read, what is said of it, and how scaffolds split."""

import math

import pytest
import torch

from pggnn.cli import main
from pggnn.data.check import check
from pggnn.data.formats.tables import read_table
from pggnn.data.formats.validation import InvalidFile
from pggnn.data.loading import load
from pggnn.data.schema import UNKNOWN
from pggnn.data.splits import grouped_split

chem = pytest.importorskip("rdkit.Chem")

PEPTIDE = "NCC(=O)" * 75 + "O"


@pytest.fixture
def write(tmp_path):
    """Writes rows to a file."""

    def save(*rows, name="molecules.csv"):
        path = tmp_path / name
        path.write_text("\n".join(rows) + "\n", encoding="utf-8")
        return path

    return save


def columns(dataset, block, of="x"):
    """The columns of one block of features, of all graphs."""
    from pggnn.data.formats.molecules import ATOM, BOND

    place = 0
    for name, (_, values) in (ATOM if of == "x" else BOND).items():
        if name == block:
            return torch.cat([graph[of] for graph in dataset])[:, place : place + len(values) + 1].argmax(1).tolist()
        place += len(values) + 1


def test_atoms_bonds_and_targets(write):
    path = write("name,SMILES,y", "ethanol,CCO,-0.77", '"a, b",C/C=C\\C,', "x, C[C@H](O)F ,1e-1")
    dataset = load(path, target="y")
    assert [graph.num_nodes for graph in dataset] == [3, 4, 4] and dataset.schema.task == "regression"
    assert dataset.schema.targets == ("y",)
    assert dataset[0].edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    assert columns(dataset[:1], "element") == [5, 5, 7] and columns(dataset[:1], "hydrogens") == [3, 2, 1]
    assert columns(dataset[1:2], "kind", "edge_attr") == [0, 0, 1, 1, 0, 0]
    assert columns(dataset[1:2], "stereo", "edge_attr")[2:4] == [1, 1]  # Z
    assert columns(dataset[2:], "stereo") == [2, 0, 2, 2]  # R at the second atom
    assert dataset[0].x.sum(1).tolist() == [8, 8, 8]
    y = [float(graph.y) for graph in dataset]
    assert y[0] == pytest.approx(-0.77) and math.isnan(y[1]) and y[2] == pytest.approx(0.1)


@pytest.mark.parametrize("smiles", ["C[C@H](O)c1ccccc1", "F/C=C\\Cl", "[Na+].CC(=O)[O-]", "N[C@@H](C)C(=O)O"])
def test_how_a_smiles_is_written_does_not_matter(write, smiles):
    written = [chem.MolToSmiles(chem.MolFromSmiles(smiles), doRandom=True) for _ in range(5)]
    dataset = load(write("smiles", smiles, *written))
    features = [sorted(map(tuple, graph.x.tolist())) for graph in dataset]
    bonds = [sorted(map(tuple, graph.edge_attr.tolist())) for graph in dataset]
    assert all(one == features[0] for one in features) and all(one == bonds[0] for one in bonds)


@pytest.mark.parametrize(
    ("cells", "task", "classes", "y"),
    [
        (["1,0", "0,1", ",1"], "classification", (0, 1), [1, 0, UNKNOWN]),
        (["wet,0", "dry,1", "NA,1"], "classification", ("dry", "wet"), [1, 0, UNKNOWN]),
        (["3,0", "4,1", "5,1"], "regression", (), [3, 4, 5]),
    ],
)
def test_the_cells_decide_the_task(write, cells, task, classes, y):
    dataset = load(write("smiles,a,b", *(f"CC,{row}" for row in cells)), target=["a"])
    assert (dataset.schema.task, dataset.schema.classes) == (task, classes)
    assert [graph.y.item() for graph in dataset] == y


def test_several_targets_have_gaps(write):
    dataset = load(write("smiles,a,b", "C,1,0", "CC,,1"), target=["a", "b"])
    assert dataset.schema.task == "multilabel" and dataset.schema.width == 2
    assert torch.equal(torch.cat([graph.y for graph in dataset]).isnan(), torch.tensor([[False, False], [True, False]]))
    later = load(write("a,smiles,b", "0,C,1", name="later.csv"), schema=dataset.schema)
    assert later[0].y.tolist() == [[0, 1]]
    assert "y" not in load(write("smiles", "C", name="new.csv"), schema=dataset.schema)[0]


def test_the_column_of_smiles_is_found_or_asked_for(write):
    assert len(load(write("name,drug", "1,CCO", "2,c1ccccc1"))) == 2
    with pytest.raises(ValueError, match=r"which column has the SMILES\? .*'smiles_a' or 'smiles_b'"):
        load(write("smiles_a,smiles_b", "C,CC"))
    with pytest.raises(ValueError, match=r"which column has the SMILES.*its columns are 'a', 'b'"):
        load(write("a,b", "1,2"))
    assert load(write("smiles_a,smiles_b", "C,CC"), smiles="smiles_b")[0].num_nodes == 2
    with pytest.raises(ValueError, match="has no column 'z': its columns are 'smiles', 'y'"):
        load(write("smiles,y", "C,1"), target="z")
    with pytest.raises(ValueError, match="has no column 'solubilty': did you mean 'solubility'\\? Its columns are"):
        load(write("smiles,solubility", "C,1"), target="solubilty")


def test_all_that_cannot_be_read_is_listed_with_its_line(write):
    path = write("smiles,y", "CCO,1.5", "CC(C)(C)(C)C,2.5", '"C(', 'C",1.0', "hello,0.5", ",0.5", "CO,high", "CN,inf")
    with pytest.raises(InvalidFile) as error:
        load(path, target="y")
    lines = str(error.value).splitlines()
    assert lines[0].endswith("6 problems") and "--data.skip-invalid" in lines[-1]
    places = [line.split(",")[0].strip() for line in error.value.problems]
    assert places == ["line 3", "line 4", "line 6", "line 7", "line 8", "line 9"]
    assert "Explicit valence for atom # 1 C, 5" in lines[1] and "'hello' cannot be read" in lines[3]
    assert "the SMILES is missing" in lines[4] and "y: expected a number, found 'high'" in lines[5]
    dataset = load(path, target="y", skip_invalid=True)
    assert len(dataset) == 1 and [*dataset.left_out] == [1, 2, 3, 4, 5, 6]
    assert dataset.describe_left_out().startswith("6 of 7 rows are left out:\n  line 3, the SMILES")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"smiles,y\nC\n", "line 2: found 1 cells, but there are 2 columns"),
        (b"smiles,smiles\nC,C\n", "2 columns are named 'smiles'"),
        (b"smiles\n", "names of columns, and rows below it"),
        (b"smiles\n\xff\n", "line 2 is not UTF-8"),
        (b"PK\x03\x04", "a spreadsheet: save it as CSV"),
        (b"\x1f\x8b\x08", "packed by gzip"),
        (b'smiles\n"C\n', "line 2: not CSV"),
    ],
)
def test_a_file_that_is_no_table(tmp_path, content, said):
    path = tmp_path / "bad.csv"
    path.write_bytes(content)
    with pytest.raises(InvalidFile, match=said):
        read_table(path)


def test_spreadsheets_of_other_places_are_read(write, tmp_path):
    path = tmp_path / "german.csv"
    path.write_bytes("\ufeffsmiles;y\r\nC;1.5\r\n\r\nCC;2.5\r\n".encode())
    table = read_table(path)
    assert table.header == ["smiles", "y"] and table.rows == [["C", "1.5"], ["CC", "2.5"]] and table.lines == [2, 4]
    path.write_text("smiles;name;y\nC;1,2-dichloroethane;1,5\nCC;3,4;-,25e1\nCCC;;\nCCCC;x;3\n")
    dataset = load(path, target="y")
    assert [float(graph.y) for graph in dataset[:2]] == [1.5, -2.5] and dataset.schema.task == "regression"
    assert dataset.table.rows[1] == ["CC", "3,4", "-,25e1"]


def test_a_column_that_is_no_target(write):
    rows = [f"{'C' * i},{i}" for i in range(1, 31)]
    with pytest.raises(ValueError, match=r"'smiles' has 30 different texts in 30 rows, such as 'C': expected numbers"):
        load(write("smiles,y", *rows), target="smiles")
    with pytest.raises(ValueError, match="'y' has 30 different texts"):  # 1,500 may be one and a half, or more
        load(write("smiles,y", *(f'C,"{i},500"' for i in range(30))), target="y")
    with pytest.raises(ValueError, match="a target is named twice: 'y', 'y'"):
        load(write("smiles,y", "C,1.5"), target=["y", "y"])
    with pytest.raises(ValueError, match="has no column 'Y': did you mean 'y'"):
        load(write("smiles,y", "C,1.5"), target="Y")
    assert len(load(write("smiles,y", *(f"C,{i % 15}a" for i in range(30))), target="y").schema.classes) == 15


def test_salts_charges_atoms_and_peptides(write):
    dataset = load(write("smiles", "[Na+].[Cl-]", "C", PEPTIDE, "[Fe+6]", "*C"))
    assert [graph.num_nodes for graph in dataset] == [2, 1, 301, 1, 2]
    assert [graph.num_edges for graph in dataset] == [0, 0, 600, 0, 2]
    assert columns(dataset[3:4], "charge") == [5]  # none of those that have a column


def test_a_given_split(write):
    dataset = load(write("smiles,Split,y", "C,train,1.5", "CC,test,2.5", "CCC,val,0.5"), target="y")
    assert {name: index.tolist() for name, index in dataset.splits.items()} == {"train": [0], "val": [2], "test": [1]}
    for valid in ("Valid", "validation", "VAL"):
        assert load(write("smiles,split", f"C,{valid}")).splits["val"].tolist() == [0]
    with pytest.raises(InvalidFile, match="line 2, split: expected train, val or test, found 'fold 1'"):
        load(write("smiles,split", "C,fold 1"))


def test_scaffolds_stay_together(write):
    rings = [
        "c1ccccc1",
        "C1CCCCC1",
        "c1ccncc1",
        "C1CCCC1",
        "c1ccoc1",
        "C1CCOC1",
        "c1ccsc1",
        "C1CNCCN1",
        "c1ccc2ccccc2c1",
    ]
    smiles = [ring + chain for ring in rings for chain in ("", "C", "CC", "CO")] + ["CCO", "CC"]
    dataset = load(write("smiles", *smiles), scaffolds=True)
    groups = torch.tensor([int(graph.scaffold) for graph in dataset])
    assert groups.tolist() == [i // 4 for i in range(36)] + [9, 9]
    found = [grouped_split(groups, seed) for seed in (0, 0, 1)]
    for parts in found:
        assert torch.cat(parts).sort()[0].tolist() == list(range(38))
        held = [set(groups[part].tolist()) for part in parts]
        assert not held[0] & held[1] and not held[0] & held[2] and not held[1] & held[2]
        assert all(map(len, parts)) and len(parts[0]) > 20
    assert all(map(torch.equal, found[0], found[1])) and not all(map(torch.equal, found[0], found[2]))


def test_check_says_what_a_chemist_looks_out_for(write, capsys):
    path = write("smiles,y", "CCO,1.5", "OCC,2.5", "[Na+].[Cl-],1.0", "C,1", "C[NH3+],0", "C(O)C,1.5", "X,1")
    with pytest.raises(InvalidFile, match="line 8"):
        check(path)
    found = check(path, target=["y"], skip_invalid=True)
    assert found.topics["molecules"] == (
        "4 different ones, 1 of several parts (salts, mixtures), 1 charged, 1 of a single atom, "
        "1 more than once, 1 of them with other targets"
    )
    assert any("lines 2, 3, 7. Networks" in hint for hint in found.hints) and len(found.left_out) == 1
    assert main(["data", "check", str(path), "--target", "y", "--skip-invalid"]) == 0
    said = capsys.readouterr().out
    assert "graph regression" in said and "left out" in said
    assert any("--target NAME" in hint for hint in check(path, skip_invalid=True).hints)
    for name, way in (("a.xlsx", "save it as CSV"), ("a.smi", "a CSV file with a column named smiles")):
        with pytest.raises(ValueError, match=f"{name}: .* is not read; .*{way}"):
            check(write("CCO", name=name))
    with pytest.raises(ValueError, match="is no CSV file"):
        check(write('{"num_nodes": 1, "edges": []}', name="graphs.jsonl"), target=["y"])
